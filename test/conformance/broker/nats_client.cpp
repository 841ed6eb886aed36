#include "nats_client.hpp"

#include <arpa/inet.h>
#include <cstdlib>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

#include "relay.hpp"

namespace twinbox::test {
namespace {

void check(natsStatus status, const std::string& what) {
  if (status != NATS_OK) {
    throw std::runtime_error("nats: " + what + ": " + natsStatus_GetText(status));
  }
}

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

std::string decode_base64(const std::string& text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6U | static_cast<std::uint32_t>(digits.find(c));
    if ((count += 6) < 8) continue;
    bytes += static_cast<char>(bits >> static_cast<unsigned>(count -= 8));
  }
  return bytes;
}

NatsMessage message_of(natsMsg* message) {
  NatsMessage found{
      .body = {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))}};
  found.subject = natsMsg_GetSubject(message);
  const char** keys = nullptr;
  int count = 0;
  if (natsMsgHeader_Keys(message, &keys, &count) != NATS_OK) return found;
  for (int i = 0; i < count; ++i) {
    const char** values = nullptr;
    int several = 0;
    natsMsgHeader_Values(message, keys[i], &values, &several);
    found.headers[keys[i]] = values[0];
    for (int j = 1; j < several; ++j) found.more.emplace_back(keys[i], values[j]);
    std::free(values);
  }
  std::free(keys);
  return found;
}

}  // namespace

std::string Nats::setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw std::runtime_error(std::string{name} +
                             " is not set; tool/brokers start <folder>, then source <folder>/env");
  }
  return value;
}

std::string Nats::url() { return setting("TWINBOX_TEST_NATS"); }

void Nats::stop(const std::string& signal, const std::string& member) {
  run(setting("TWINBOX_TEST_BROKERS") + " down " + setting("TWINBOX_TEST_BROKERS_DIR") + " nats " +
      signal + " " + member);
}

void Nats::start() {
  run(setting("TWINBOX_TEST_BROKERS") + " up " + setting("TWINBOX_TEST_BROKERS_DIR") + " nats");
}

Nats::Nats(const std::string& to) {
  check(natsConnection_ConnectTo(&connection_, to.c_str()), "connect");
  check(natsConnection_JetStream(&context_, connection_, nullptr), "JetStream");
}

Nats::~Nats() {
  for (const std::string& name : streams_) {
    js_DeleteStream(context_, name.c_str(), nullptr, nullptr);
  }
  natsSubscription_Destroy(watched_);
  jsCtx_Destroy(context_);
  natsConnection_Destroy(connection_);
}

std::string Nats::stream(const std::string& name, std::vector<std::string> subjects,
                         const std::function<void(jsStreamConfig&)>& change) {
  jsStreamConfig config;
  jsStreamConfig_Init(&config);
  std::vector<const char*> list;
  for (const std::string& subject : subjects) list.push_back(subject.c_str());
  config.Name = name.c_str();
  config.Subjects = list.data();
  config.SubjectsLen = static_cast<int>(list.size());
  if (change) change(config);
  check(js_AddStream(nullptr, context_, &config, nullptr, nullptr), "stream " + name);
  forget(name);
  return name;
}

void Nats::consumer(const std::string& stream, const std::string& name,
                    const std::function<void(jsConsumerConfig&)>& change) {
  jsConsumerConfig config;
  jsConsumerConfig_Init(&config);
  config.Durable = name.c_str();
  if (change) change(config);
  check(js_AddConsumer(nullptr, context_, stream.c_str(), &config, nullptr, nullptr),
        "consumer " + name);
}

void Nats::publish(const std::string& subject, const NatsMessage& message) {
  natsMsg* made = nullptr;
  check(natsMsg_Create(&made, subject.c_str(), nullptr, message.body.data(),
                       static_cast<int>(message.body.size())),
        "message");
  for (const auto& [name, value] : message.headers) {
    natsMsgHeader_Set(made, name.c_str(), value.c_str());
  }
  for (const auto& [name, value] : message.more) {
    natsMsgHeader_Add(made, name.c_str(), value.c_str());
  }
  const natsStatus status = js_PublishMsg(nullptr, context_, made, nullptr, nullptr);
  natsMsg_Destroy(made);
  check(status, "publish to " + subject);
}

void Nats::publish_raw(const std::string& subject, const std::string& headers,
                       const std::string& body) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port_of(url())));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string text =
      R"(CONNECT {"user":"twinbox","pass":"twinbox","headers":true,"verbose":false})"
      "\r\nHPUB " +
      subject + " " + std::to_string(headers.size()) + " " +
      std::to_string(headers.size() + body.size()) + "\r\n" + headers + body + "\r\nPING\r\n";
  std::string answer;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
      ::send(socket, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    char bytes[4096];
    while (answer.find("PONG\r\n") == std::string::npos) {
      const ssize_t size = ::recv(socket, bytes, sizeof bytes, 0);
      if (size <= 0) break;
      answer.append(bytes, static_cast<std::size_t>(size));
    }
  }
  ::close(socket);
  if (!answer.ends_with("PONG\r\n")) throw std::runtime_error("nats: publish_raw: " + answer);
}

std::string Nats::raw_headers(const std::string& stream, std::uint64_t sequence) {
  natsMsg* reply = nullptr;
  const std::string subject = "$JS.API.STREAM.MSG.GET." + stream;
  const std::string request = R"({"seq":)" + std::to_string(sequence) + "}";
  check(natsConnection_RequestString(&reply, connection_, subject.c_str(), request.c_str(), 5000),
        "message of " + stream);
  const std::string text = natsMsg_GetData(reply);
  natsMsg_Destroy(reply);
  const std::string member = R"("hdrs":")";
  const std::size_t begin = text.find(member);
  if (begin == std::string::npos) return {};
  const std::size_t first = begin + member.size();
  return decode_base64(text.substr(first, text.find('"', first) - first));
}

std::vector<NatsMessage> Nats::read(const std::string& stream) {
  jsStreamInfo* info = nullptr;
  check(js_GetStreamInfo(&info, context_, stream.c_str(), nullptr, nullptr), "stream " + stream);
  const std::uint64_t first = info->State.FirstSeq, last = info->State.LastSeq;
  jsStreamInfo_Destroy(info);
  std::vector<NatsMessage> all;
  for (std::uint64_t at = std::max<std::uint64_t>(1, first); at <= last; ++at) {
    natsMsg* message = nullptr;
    if (js_GetMsg(&message, context_, stream.c_str(), at, nullptr, nullptr) != NATS_OK) continue;
    all.push_back(message_of(message));
    natsMsg_Destroy(message);
  }
  return all;
}

std::uint64_t Nats::count(const std::string& stream) {
  jsStreamInfo* info = nullptr;
  check(js_GetStreamInfo(&info, context_, stream.c_str(), nullptr, nullptr), "stream " + stream);
  const std::uint64_t count = info->State.Msgs;
  jsStreamInfo_Destroy(info);
  return count;
}

jsConsumerInfo* Nats::look(const std::string& stream, const std::string& consumer) {
  jsConsumerInfo* info = nullptr;
  check(js_GetConsumerInfo(&info, context_, stream.c_str(), consumer.c_str(), nullptr, nullptr),
        "consumer " + consumer);
  return info;
}

std::uint64_t Nats::left(const std::string& stream, const std::string& consumer) {
  jsConsumerInfo* info = look(stream, consumer);
  const std::uint64_t left = info->NumPending + static_cast<std::uint64_t>(info->NumAckPending);
  jsConsumerInfo_Destroy(info);
  return left;
}

std::uint64_t Nats::deliveries(const std::string& stream, const std::string& consumer) {
  jsConsumerInfo* info = look(stream, consumer);
  const std::uint64_t count = info->Delivered.Consumer;
  jsConsumerInfo_Destroy(info);
  return count;
}

void Nats::watch(const std::string& subject) {
  check(natsConnection_SubscribeSync(&watched_, connection_, subject.c_str()), "watch " + subject);
  check(natsConnection_Flush(connection_), "watch " + subject);
}

std::string Nats::next() {
  natsMsg* message = nullptr;
  check(natsSubscription_NextMsg(&message, watched_, 90'000), "next");
  const std::string body{natsMsg_GetData(message),
                         static_cast<std::size_t>(natsMsg_GetDataLength(message))};
  natsMsg_Destroy(message);
  return body;
}

std::string Nats::leader(const std::string& stream) {
  jsStreamInfo* info = nullptr;
  if (js_GetStreamInfo(&info, context_, stream.c_str(), nullptr, nullptr) != NATS_OK) return {};
  const char* name = info->Cluster == nullptr ? nullptr : info->Cluster->Leader;
  const std::string leader = name == nullptr ? "" : name;
  jsStreamInfo_Destroy(info);
  return leader.substr(leader.rfind('_') + 1);  // tool/brokers names it twinbox_<member>
}

void Nats::remove_stream(const std::string& stream) {
  check(js_DeleteStream(context_, stream.c_str(), nullptr, nullptr), "delete " + stream);
}

void Nats::remove_consumer(const std::string& stream, const std::string& consumer) {
  check(js_DeleteConsumer(context_, stream.c_str(), consumer.c_str(), nullptr, nullptr),
        "delete " + consumer);
}

}  // namespace twinbox::test
