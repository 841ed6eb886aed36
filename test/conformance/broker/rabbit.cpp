#include "rabbit.hpp"

#include <amqp_tcp_socket.h>
#include <cstdlib>
#include <stdexcept>

namespace twinbox::test {
namespace {

amqp_bytes_t bytes_of(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};
}

std::string text_of(const amqp_bytes_t& bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

bool is_number(const std::string& text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  return text.size() > sign && text.find_first_not_of("0123456789", sign) == std::string::npos;
}

/// `values` must outlive the entries.
std::vector<amqp_table_entry_t> entries_of(const std::map<std::string, std::string>& values) {
  std::vector<amqp_table_entry_t> entries;
  for (const auto& [name, value] : values) {
    amqp_table_entry_t entry{};
    entry.key = bytes_of(name);
    if (is_number(value)) {
      entry.value.kind = AMQP_FIELD_KIND_I32;
      entry.value.value.i32 = std::stoi(value);
    } else {
      entry.value.kind = AMQP_FIELD_KIND_UTF8;
      entry.value.value.bytes = bytes_of(value);
    }
    entries.push_back(entry);
  }
  return entries;
}

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

std::map<std::string, std::string> headers_of(const amqp_basic_properties_t& has) {
  std::map<std::string, std::string> headers;
  if ((has._flags & AMQP_BASIC_HEADERS_FLAG) == 0) return headers;
  for (int i = 0; i < has.headers.num_entries; ++i) {
    const amqp_table_entry_t& entry = has.headers.entries[i];
    std::string& value = headers[text_of(entry.key)];
    if (entry.value.kind == AMQP_FIELD_KIND_UTF8) value = text_of(entry.value.value.bytes);
    if (entry.value.kind == AMQP_FIELD_KIND_I64) value = std::to_string(entry.value.value.i64);
    if (entry.value.kind == AMQP_FIELD_KIND_I32) value = std::to_string(entry.value.value.i32);
  }
  return headers;
}

constexpr amqp_channel_t channel = 1;

}  // namespace

std::string Rabbit::setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw std::runtime_error(std::string{name} +
                             " is not set; tool/brokers start <folder>, then source <folder>/env");
  }
  return value;
}

std::string Rabbit::url() { return setting("TWINBOX_TEST_RABBITMQ"); }

void Rabbit::stop(const std::string& signal) {
  run(setting("TWINBOX_TEST_BROKERS") + " down " + setting("TWINBOX_TEST_BROKERS_DIR") +
      " rabbitmq " + signal);
}

void Rabbit::start() {
  run(setting("TWINBOX_TEST_BROKERS") + " up " + setting("TWINBOX_TEST_BROKERS_DIR") + " rabbitmq");
}

void Rabbit::alarm(bool on) {
  run(setting("TWINBOX_TEST_BROKERS") + (on ? " alarm " : " calm ") +
      setting("TWINBOX_TEST_BROKERS_DIR") + " rabbitmq");
}

void Rabbit::permit(const std::string& exchange, const std::string& pattern) {
  run(setting("TWINBOX_TEST_BROKERS") + " permit " + setting("TWINBOX_TEST_BROKERS_DIR") +
      " rabbitmq '" + exchange + "' '" + pattern + "'");
}

void Rabbit::configure_nothing(bool on) {
  run(setting("TWINBOX_TEST_BROKERS") + (on ? " fix " : " unfix ") +
      setting("TWINBOX_TEST_BROKERS_DIR") + " rabbitmq");
}

Rabbit::Rabbit() { connect(); }

void Rabbit::connect() {
  std::string copy = url();
  amqp_connection_info info;
  if (amqp_parse_url(copy.data(), &info) != AMQP_STATUS_OK) throw std::runtime_error("bad url");
  state_ = amqp_new_connection();
  amqp_socket_t* socket = amqp_tcp_socket_new(state_);
  if (amqp_socket_open(socket, info.host, info.port) != AMQP_STATUS_OK) {
    throw std::runtime_error("the test's broker cannot be reached");
  }
  check(amqp_login(state_, info.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user,
                   info.password),
        "login");
  amqp_channel_open(state_, channel);
  check(amqp_get_rpc_reply(state_), "channel");
}

Rabbit::~Rabbit() {
  for (const std::string& name : queues_) amqp_queue_delete(state_, channel, bytes_of(name), 0, 0);
  for (const std::string& name : exchanges_) {
    amqp_exchange_delete(state_, channel, bytes_of(name), 0);
  }
  amqp_connection_close(state_, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(state_);
}

void Rabbit::check(const amqp_rpc_reply_t& reply, const std::string& what) const {
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error("rabbit: " + what);
}

std::string Rabbit::queue(const std::string& name,
                          const std::map<std::string, std::string>& arguments, bool durable,
                          bool auto_delete) {
  auto entries = entries_of(arguments);
  amqp_queue_declare(state_, channel, bytes_of(name), 0, durable ? 1 : 0, 0, auto_delete ? 1 : 0,
                     {static_cast<int>(entries.size()), entries.data()});
  check(amqp_get_rpc_reply(state_), "queue " + name);
  queues_.push_back(name);
  return name;
}

void Rabbit::exchange(const std::string& name, const std::string& type) {
  amqp_exchange_declare(state_, channel, bytes_of(name), bytes_of(type), 0, 1, 0, 0,
                        amqp_empty_table);
  check(amqp_get_rpc_reply(state_), "exchange " + name);
  exchanges_.push_back(name);
}

void Rabbit::bind(const std::string& queue, const std::string& exchange, const std::string& key) {
  amqp_queue_bind(state_, channel, bytes_of(queue), bytes_of(exchange), bytes_of(key),
                  amqp_empty_table);
  check(amqp_get_rpc_reply(state_), "bind " + queue);
}

void Rabbit::forget_queue(const std::string& name) { queues_.push_back(name); }
void Rabbit::forget_exchange(const std::string& name) { exchanges_.push_back(name); }

void Rabbit::publish(const std::string& exchange, const std::string& key,
                     const RabbitMessage& message) {
  amqp_basic_properties_t has{};
  const auto set = [&](amqp_bytes_t& property, amqp_flags_t flag, const std::string& value) {
    if (value.empty()) return;
    property = bytes_of(value);
    has._flags |= flag;
  };
  set(has.content_type, AMQP_BASIC_CONTENT_TYPE_FLAG, message.content_type);
  set(has.content_encoding, AMQP_BASIC_CONTENT_ENCODING_FLAG, message.content_encoding);
  set(has.message_id, AMQP_BASIC_MESSAGE_ID_FLAG, message.message_id);
  set(has.type, AMQP_BASIC_TYPE_FLAG, message.type);
  set(has.app_id, AMQP_BASIC_APP_ID_FLAG, message.app_id);
  set(has.correlation_id, AMQP_BASIC_CORRELATION_ID_FLAG, message.correlation_id);
  set(has.expiration, AMQP_BASIC_EXPIRATION_FLAG, message.expiration);
  const auto set_number = [&](std::uint8_t& property, amqp_flags_t flag, int value) {
    if (value == 0) return;
    property = static_cast<std::uint8_t>(value);
    has._flags |= flag;
  };
  set_number(has.delivery_mode, AMQP_BASIC_DELIVERY_MODE_FLAG, message.delivery_mode);
  set_number(has.priority, AMQP_BASIC_PRIORITY_FLAG, message.priority);
  auto entries = entries_of(message.headers);
  entries.insert(entries.end(), message.fields.begin(), message.fields.end());
  has.headers = {static_cast<int>(entries.size()), entries.data()};
  has._flags |= AMQP_BASIC_HEADERS_FLAG;
  if (amqp_basic_publish(state_, channel, bytes_of(exchange), bytes_of(key), 0, 0, &has,
                         bytes_of(message.body)) != AMQP_STATUS_OK) {
    throw std::runtime_error("rabbit: publish");
  }
}

std::optional<RabbitMessage> Rabbit::get(const std::string& queue) {
  amqp_maybe_release_buffers(state_);
  const amqp_rpc_reply_t reply = amqp_basic_get(state_, channel, bytes_of(queue), 1);
  check(reply, "get from " + queue);
  if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return {};
  const auto* got = static_cast<const amqp_basic_get_ok_t*>(reply.reply.decoded);
  RabbitMessage message{.body = {}, .routing_key = text_of(got->routing_key)};
  message.redelivered = got->redelivered != 0;
  amqp_message_t read;
  check(amqp_read_message(state_, channel, &read, 0), "read");
  const amqp_basic_properties_t& has = read.properties;
  message.body = text_of(read.body);
  const auto property = [&](amqp_flags_t flag, const amqp_bytes_t& value) {
    return (has._flags & flag) != 0 ? text_of(value) : std::string{};
  };
  message.content_type = property(AMQP_BASIC_CONTENT_TYPE_FLAG, has.content_type);
  message.content_encoding = property(AMQP_BASIC_CONTENT_ENCODING_FLAG, has.content_encoding);
  message.message_id = property(AMQP_BASIC_MESSAGE_ID_FLAG, has.message_id);
  message.type = property(AMQP_BASIC_TYPE_FLAG, has.type);
  message.app_id = property(AMQP_BASIC_APP_ID_FLAG, has.app_id);
  message.correlation_id = property(AMQP_BASIC_CORRELATION_ID_FLAG, has.correlation_id);
  message.delivery_mode = (has._flags & AMQP_BASIC_DELIVERY_MODE_FLAG) != 0 ? has.delivery_mode : 0;
  message.headers = headers_of(has);
  amqp_destroy_message(&read);
  return message;
}

std::vector<RabbitMessage> Rabbit::drain(const std::string& queue) {
  std::vector<RabbitMessage> all;
  while (auto message = get(queue)) all.push_back(std::move(*message));
  return all;
}

std::uint32_t Rabbit::count(const std::string& queue) {
  const auto* answer =
      amqp_queue_declare(state_, channel, bytes_of(queue), 1, 1, 0, 0, amqp_empty_table);
  check(amqp_get_rpc_reply(state_), "count of " + queue);
  return answer->message_count;
}

void Rabbit::purge(const std::string& queue) {
  amqp_queue_purge(state_, channel, bytes_of(queue));
  check(amqp_get_rpc_reply(state_), "purge " + queue);
}

void Rabbit::remove_queue(const std::string& queue) {
  amqp_queue_delete(state_, channel, bytes_of(queue), 0, 0);
  check(amqp_get_rpc_reply(state_), "delete " + queue);
}

void Rabbit::remove_exchange(const std::string& exchange) {
  amqp_exchange_delete(state_, channel, bytes_of(exchange), 0);
  check(amqp_get_rpc_reply(state_), "delete " + exchange);
}

}  // namespace twinbox::test
