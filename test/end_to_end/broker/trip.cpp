// Outbox → broker → inbox, in two processes that are killed at random: in the end every message has
// been handled, none twice, and those of one partition key in their order.
//
//   broker_trip [--broker rabbitmq|nats|kafka] [--messages N] [--kills N] [--seed N]
//
// Needs the settings of tool/brokers. Kafka is the mock cluster of librdkafka, in the process that
// is not killed, or what TWINBOX_TEST_KAFKA names.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/source.hpp>
#if TWINBOX_RABBITMQ
#include <twinbox/rabbitmq.hpp>
#endif
#if TWINBOX_NATS
#include <twinbox/nats.hpp>
#endif
#if TWINBOX_KAFKA
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <twinbox/kafka.hpp>
#endif

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

BoxOptions box_options() {
  BoxOptions options;
  options.deploy_schema = true;
  options.max_expiries = 0;  // a worker that is killed says nothing about its messages
  return options;
}

DispatcherOptions dispatch_options() {
  DispatcherOptions options;
  options.lease = 2s;  // what a killed worker held comes back soon
  options.batch = 500;
  options.poll_interval = 50ms;
  return options;
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string{name} + " is not set: tool/brokers");
  return value;
}

/// The two ends of a broker; `destination`: the queue or the stream between them.
struct Broker {
  BatchHandler (*sink)(const std::string& destination);
  std::unique_ptr<BrokerSource> (*source)(const std::string& destination, AcceptCall accept);
};

#if TWINBOX_RABBITMQ
const Broker rabbitmq{[](const std::string& destination) {
                        return rabbitmq_sink(std::make_shared<RabbitPublisher>(
                            RabbitConnection{.url = setting("TWINBOX_TEST_RABBITMQ")},
                            RabbitSinkOptions{.routing_key = destination}));
                      },
                      [](const std::string& destination, AcceptCall accept) {
                        return rabbitmq_source(
                            {.url = setting("TWINBOX_TEST_RABBITMQ")},
                            {.queue = destination, .topology = Topology::declare},
                            std::move(accept));
                      }};
#endif
#if TWINBOX_NATS
const Broker nats{
    [](const std::string& destination) {
      return nats_sink(
          std::make_shared<NatsPublisher>(NatsConnection{.url = setting("TWINBOX_TEST_NATS")},
                                          NatsSinkOptions{.subject_prefix = destination + "."}));
    },
    [](const std::string& destination, AcceptCall accept) {
      NatsSourceOptions options{.stream = {.name = destination, .subjects = {destination + ".>"}},
                                .consumer = "trip",
                                .topology = Topology::declare};
      options.ack_wait = 2s;  // what a killed process held comes back soon
      return nats_source({.url = setting("TWINBOX_TEST_NATS")}, std::move(options),
                         std::move(accept));
    }};
#endif
#if TWINBOX_KAFKA
/// Short sessions: the group waits for a killed member as long.
KafkaConnection cluster() {
  return {.brokers = setting("TWINBOX_TEST_KAFKA"),
          .settings = {{"session.timeout.ms", "6000"}, {"heartbeat.interval.ms", "500"}}};
}

const Broker kafka{[](const std::string& destination) {
                     return kafka_sink(std::make_shared<KafkaPublisher>(
                         cluster(), KafkaSinkOptions{.topic = destination}));
                   },
                   [](const std::string& destination, AcceptCall accept) {
                     return kafka_source(cluster(), {.topics = {destination}, .group = destination},
                                         std::move(accept));
                   }};

/// Where no cluster is named, a mock in this process, as long as it lives. It keeps five megabytes
/// of a partition.
void make_cluster(const std::string& topic) {
  if (std::getenv("TWINBOX_TEST_KAFKA") != nullptr) return;
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "log_level", "0", nullptr, 0);
  rd_kafka_t* keeper = rd_kafka_new(RD_KAFKA_PRODUCER, conf, nullptr, 0);
  rd_kafka_mock_cluster_t* mock = rd_kafka_mock_cluster_new(keeper, 1);
  rd_kafka_mock_topic_create(mock, topic.c_str(), 32, 1);
  setenv("TWINBOX_TEST_KAFKA", rd_kafka_mock_cluster_bootstraps(mock), 1);
}
#endif

const Broker& broker_called(const std::string& name) {
#if TWINBOX_RABBITMQ
  if (name == "rabbitmq") return rabbitmq;
#endif
#if TWINBOX_NATS
  if (name == "nats") return nats;
#endif
#if TWINBOX_KAFKA
  if (name == "kafka") return kafka;
#endif
  throw std::runtime_error("there is no broker '" + name + "' in this program");
}

void send(const Broker& broker, const std::string& address, const std::string& destination) {
  Database database{address};
  Outbox outbox{database, box_options()};
  Handlers handlers;
  handlers.add(TopicPattern{"#"}, {broker.sink(destination), {.max_batch = 500}});
  Dispatcher{outbox, handlers, dispatch_options()}.run({});
}

void receive(const Broker& broker, const std::string& address, const std::string& destination) {
  Database database{address};
  Inbox inbox{database, box_options()};
  Handlers handlers;
  handlers.on(TopicPattern{"#"}, [](Session& session, const Message& message) {
    session.execute("insert into ledger (id, partition_key) values (@id, @key)",
                    {{"id", message.id.view()},
                     {"key", message.partition_key ? message.partition_key->view() : ""}});
  });
  Dispatcher dispatcher{inbox, handlers, dispatch_options()};
  const std::jthread dispatching{[&](std::stop_token stop) { dispatcher.run(stop); }};
  broker.source(destination, accept_into(inbox))->run({});
}

/// One of the two processes; killed and begun again.
class Child {
 public:
  explicit Child(Texts words) : words_(std::move(words)) { start(); }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void start() {
    std::vector<char*> arguments;
    for (std::string& word : words_) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0) {
      throw std::runtime_error("cannot start a process");
    }
  }
  /// Nobody but us ends it.
  [[nodiscard]] bool runs() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  Texts words_;
  pid_t pid_ = 0;
};

struct Options {
  std::string broker = "rabbitmq";
  int messages = 100'000;
  int kills = 30;
  unsigned seed = std::random_device{}();
};

constexpr int keys = 20;

NewMessage message_number(int number) {
  NewMessage message{.topic = Topic{"order.placed"},
                     .payload = "{\"number\":" + std::to_string(number) + "}",
                     .id = MessageId{"m" + std::to_string(number)}};
  if (number % 20 == 0) {
    message.extras.partition_key = PartitionKey{"key " + std::to_string(number / 20 % keys)};
  }
  return message;
}

void enqueue_all(Outbox& outbox, int count) {
  std::vector<NewMessage> batch;
  for (int i = 0; i < count; ++i) {
    batch.push_back(message_number(i));
    if (batch.size() == 1000 || i + 1 == count) {
      outbox.enqueue(batch);
      batch.clear();
    }
  }
}

std::int64_t number_of(Database& database, const std::string& sql) {
  std::int64_t value = 0;
  database.in_transaction([&](Session& session) {
    session.execute(sql, {}, [&](const Row& row) { value = row.integer(0); });
  });
  return value;
}

void make_place(const Broker& broker, const std::string& destination) {
  const auto source = broker.source(destination, [](auto) { return std::vector<Accepted>{}; });
  std::jthread thread{[&](std::stop_token stop) { source->run(std::move(stop)); }};
  for (int i = 0; i < 3000 && !source->status().connected; ++i) std::this_thread::sleep_for(10ms);
  if (!source->status().connected) throw std::runtime_error(source->status().error);
}

bool in_order(Database& database) {
  std::map<std::string, int> last;
  bool good = true;
  database.in_transaction([&](Session& session) {
    session.execute("select id, partition_key from ledger where partition_key <> '' order by rowid",
                    {}, [&](const Row& row) {
                      const int number = std::stoi(std::string{row.text(0)}.substr(1));
                      int& before = last[std::string{row.text(1)}];
                      if (number < before) {
                        std::cerr << row.text(0) << " was handled after m" << before << "\n";
                        good = false;
                      }
                      before = number;
                    });
  });
  return good;
}

bool check(const char* what, std::int64_t found, std::int64_t expected) {
  if (found == expected) return true;
  std::cerr << what << ": " << found << " instead of " << expected << "\n";
  return false;
}

int run(const Options& options) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("twinbox_trip." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string from = "sqlite:" + (folder / "from.db").string();
  const std::string to = "sqlite:" + (folder / "to.db").string();
  const std::string destination = "twinbox_trip_" + std::to_string(getpid());
  const Broker& broker = broker_called(options.broker);
#if TWINBOX_KAFKA
  if (options.broker == "kafka") make_cluster(destination);
#endif
  std::cout << "seed " << options.seed << std::endl;
  bool good = true;
  {
    Database source{from}, target{to};
    Outbox outbox{source, box_options()};
    Inbox inbox{target, box_options()};
    target.in_transaction([](Session& session) {
      session.execute("create table ledger (id text not null, partition_key text not null)");
    });
    enqueue_all(outbox, options.messages);
    make_place(broker, destination);
    std::mt19937 chance{options.seed};
    Child sender{{"broker_trip", "send", options.broker, from, destination}};
    Child receiver{{"broker_trip", "receive", options.broker, to, destination}};
    const auto begin = std::chrono::steady_clock::now();
    const auto done = [&] { return number_of(target, "select count(*) from ledger"); };
    int kills = 0, of_sender = 0;
    std::int64_t handled = 0;  // when the last one was killed
    // Ten minutes without an end are a failure; a step of the work is waited for between two kills.
    while (done() < options.messages && std::chrono::steady_clock::now() - begin < 10min) {
      // The first as soon as something has been handled: there is work left for the others then.
      std::this_thread::sleep_for(std::chrono::milliseconds{kills == 0 ? 5 : 100 + chance() % 700});
      if (!sender.runs() || !receiver.runs()) throw std::runtime_error("a process has ended");
      if (kills >= options.kills) continue;
      // A group of Kafka takes seconds to let a member in: killed before that, nobody gets
      // anywhere.
      if ((kills == 0 || options.broker == "kafka") && done() == handled) continue;
      handled = done();
      // The second is the other one, so that each is killed.
      const bool sends = kills == 1 ? of_sender == 0 : chance() % 2 == 0;
      ++kills;
      of_sender += sends ? 1 : 0;
      Child& one = sends ? sender : receiver;
      one.kill();
      one.start();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const auto open = [&](WorkQueue& box) { return Admin{box}.counts().all; };
    for (int i = 0; i < 600 && open(outbox).open() + open(inbox).open() > 0; ++i) {
      std::this_thread::sleep_for(100ms);
    }
    if (options.kills > 1 && (of_sender == 0 || of_sender == kills)) {
      std::cerr << "only one of the two processes was killed\n";
      good = false;
    }
    good = check("handled", done(), options.messages) & good;
    good = check("handled once", number_of(target, "select count(distinct id) from ledger"),
                 options.messages) &
           good;
    good = check("open in the outbox", open(outbox).open(), 0) & good;
    good = check("dead in the outbox", open(outbox).dead, 0) & good;
    good = check("open in the inbox", open(inbox).open(), 0) & good;
    good = check("dead in the inbox", open(inbox).dead, 0) & good;
    good = in_order(target) && good;
    std::cout << options.messages << " messages, " << kills << " kills, " << of_sender
              << " of them of the sender, " << took.count() << " s, "
              << static_cast<double>(options.messages) / took.count() << " messages/s\n";
  }
  if (good) std::filesystem::remove_all(folder);
  return good ? 0 : 1;
}

Options options_of(const Texts& words) {
  Options options;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string& value = words[i + 1];
    if (words[i] == "--broker") options.broker = value;
    if (words[i] == "--messages") options.messages = std::stoi(value);
    if (words[i] == "--kills") options.kills = std::stoi(value);
    if (words[i] == "--seed") options.seed = static_cast<unsigned>(std::stoul(value));
  }
  return options;
}

}  // namespace
}  // namespace twinbox::test

int main(int count, char** words) {
  using namespace twinbox::test;
  const Texts given{words + 1, words + count};
  try {
    if (given.size() == 4 && (given[0] == "send" || given[0] == "receive")) {
      (given[0] == "send" ? twinbox::test::send : receive)(broker_called(given[1]), given[2],
                                                           given[3]);
      return 0;
    }
    return run(options_of(given));
  } catch (const std::exception& error) {
    std::cerr << "broker_trip: " << error.what() << "\n";
    return 1;
  }
}
