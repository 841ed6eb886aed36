// A campaign of faults on one backend; or one of its processes.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string_view>

#include "end_to_end/chaos/campaign.hpp"
#include "end_to_end/chaos/role.hpp"
#include "end_to_end/chaos/verdict.hpp"

namespace {

using namespace twinbox;
using namespace twinbox::chaos;

constexpr const char* usage =
    "usage: chaos [--minutes N | --seconds N] [--seed N] [--backend sqlite|postgres] [--in-time] "
    "[--keep]\n"
    "  --minutes N, --seconds N   how long faults happen (default 20 s)\n"
    "  --seed N                   chooses the faults, their victims and the messages\n"
    "  --backend                  sqlite (default) or postgres, the server of ./dev chaos\n"
    "  --in-time                  fail when work goes on later than 5 s after a cause has ended\n"
    "  --keep                     keep the ledgers, as after a failure\n";

struct Arguments {
  std::chrono::seconds time{20};
  std::uint64_t seed = std::random_device{}();
  bool postgres = false;
  bool in_time = false;
  bool keep = false;
};

template <class Number>
bool parse(const char* word, Number& value) {
  const char* end = word + std::strlen(word);
  const auto [at, error] = std::from_chars(word, end, value);
  return error == std::errc{} && at == end;
}

bool parse(int count, char** words, Arguments& arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--keep" || word == "--in-time") {
      (word == "--keep" ? arguments.keep : arguments.in_time) = true;
      continue;
    }
    if (i + 1 == count) return false;
    const char* value = words[++i];
    long number = 0;
    if (word == "--backend") {
      arguments.postgres = std::string_view{value} == "postgres";
      if (!arguments.postgres && std::string_view{value} != "sqlite") return false;
    } else if (word == "--seed") {
      if (!parse(value, arguments.seed)) return false;
    } else if ((word == "--minutes" || word == "--seconds") && parse(value, number) && number > 0) {
      arguments.time = std::chrono::seconds{word == "--minutes" ? number * 60 : number};
    } else {
      return false;
    }
  }
  return true;
}

Store store_of(const Arguments& arguments, const std::filesystem::path& folder) {
  if (!arguments.postgres) return {"sqlite:" + (folder / "chaos.db").string(), "infra"};
  const char* server = std::getenv("TWINBOX_TEST_POSTGRES");
  if (server == nullptr) {
    throw std::runtime_error("TWINBOX_TEST_POSTGRES is not set: ./dev chaos starts a server");
  }
  return {server, "chaos_" + std::to_string(now())};
}

void remove(const Store& store, const std::filesystem::path& folder) {
  std::filesystem::remove_all(folder);
  if (store.address.starts_with("sqlite:")) return;
  Database(store.address).in_transaction([&](Session& session) {
    session.execute("drop schema \"" + store.schema + "\" cascade");
  });
}

int run(const Arguments& arguments) {
  std::string name = std::filesystem::temp_directory_path() / "twinbox_chaos.XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  const std::filesystem::path folder = name;
  const char* backend = arguments.postgres ? "postgres" : "sqlite";
  std::printf("chaos on %s for %lld s, seed %llu\n\n", backend,
              static_cast<long long>(arguments.time.count()),
              static_cast<unsigned long long>(arguments.seed));
  std::fflush(stdout);
  const Store store = store_of(arguments, folder);
  const Course course =
      Campaign({arguments.postgres, store, folder, arguments.seed, arguments.time}).run();
  const Stored stored = read_stored(store);
  const Verdict verdict(course, stored, arguments.in_time);
  verdict.print();
  if (!verdict.kept()) {
    std::printf(
        "\nFAILED; the ledgers and logs are in %s\n"
        "to choose the same faults: chaos --backend %s --seconds %lld --seed %llu\n",
        folder.c_str(), backend, static_cast<long long>(arguments.time.count()),
        static_cast<unsigned long long>(arguments.seed));
    return 1;
  }
  if (arguments.keep) {
    std::printf("\nthe ledgers and logs are in %s\n", folder.c_str());
  } else {
    remove(store, folder);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (const auto role = role_of(count, words)) return run_role(*role);
  Arguments arguments;
  if (!parse(count, words, arguments)) {
    std::fputs(usage, stderr);
    return 2;
  }
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "chaos: " << error.what() << '\n';
    return 1;
  }
}
