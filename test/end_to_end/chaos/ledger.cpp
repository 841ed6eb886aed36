#include "end_to_end/chaos/ledger.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <system_error>
#include <unistd.h>

namespace twinbox::chaos {
namespace {

constexpr std::string_view ends[] = {"done", "retry", "dead"};

template <std::size_t N>
std::size_t place_of(const std::string_view (&names)[N], std::string_view name) {
  return static_cast<std::size_t>(std::find(names, names + N, name) - names);
}

/// `process.thread-number-topic-end-ordered-how`
std::vector<std::string> parts_of(std::string_view id) {
  std::vector<std::string> parts;
  std::istringstream in{std::string{id}};
  for (std::string part; std::getline(in, part, '-');) parts.push_back(part);
  if (parts.size() != 6) throw std::runtime_error("no message of ours: " + std::string{id});
  return parts;
}

}  // namespace

Micros now() {
  return micros(std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
}

Ledger::Ledger(const std::string& file)
    : file_(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), file);
}

Ledger::~Ledger() { close(file_); }

void Ledger::write(const std::string& line) const {
  const std::string text = line + "\n";
  if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::system_error(errno, std::generic_category(), "ledger");
  }
}

std::string Plan::id(std::string_view thread, int number) const {
  std::ostringstream text;
  text << thread << '-' << number << '-' << topics[static_cast<std::size_t>(topic)] << '-'
       << ends[static_cast<std::size_t>(end)] << '-' << (ordered ? "ordered" : "free") << '-'
       << (ordinary ? "alone" : "beside");
  return text.str();
}

Plan plan_of(std::string_view id) {
  const auto parts = parts_of(id);
  return {.topic = static_cast<Plan::Topic>(place_of(topics, parts[2])),
          .end = static_cast<Plan::End>(place_of(ends, parts[3])),
          .ordered = parts[4] == "ordered",
          .ordinary = parts[5] == "alone"};
}

std::string thread_of(std::string_view id) { return parts_of(id)[0]; }
int number_of(std::string_view id) { return std::stoi(parts_of(id)[1]); }

void Produced::read(const std::string& file) {
  std::ifstream in(file);
  for (std::string act, what; in >> act >> what;) {
    if (act == "intend") intended.insert(what);
    if (act == "commit") committed.insert(what);
    if (act == "roll_back") rolled_back.insert(what);
    if (act == "error") ++errors[what];
  }
}

void Handled::read(const std::string& file, int worker) {
  std::ifstream in(file);
  std::map<std::pair<std::string, int>, Call> begun;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string act, id;
    words >> act;
    if (act == "owner") words >> owners[worker];
    if (act == "refused") {
      int count = 0;
      words >> count;
      refused += count;
    }
    if (act == "loop_error") ++loop_errors;
    if (act == "begin") {
      Call call;
      words >> id >> call.work >> call.epoch >> call.leased_until >> call.begin;
      call.worker = worker;
      begun[{id, call.epoch}] = call;
      last_begin[worker] = std::max(last_begin[worker], call.begin);
    }
    if (act == "end") {
      int epoch = 0, answer = 0;
      words >> id >> epoch >> answer;
      Call& call = begun[{id, epoch}];
      call.answer = static_cast<Plan::End>(answer);
      words >> call.end;
      this->ends.push_back(call.end);
    }
  }
  for (auto& [key, call] : begun) calls[key.first].push_back(call);
}

void Handled::sort() {
  std::sort(ends.begin(), ends.end());
  for (auto& [id, of_message] : calls) {
    std::sort(of_message.begin(), of_message.end(), [](const Call& a, const Call& b) {
      return std::pair{a.work, a.epoch} < std::pair{b.work, b.epoch};
    });
  }
}

}  // namespace twinbox::chaos
