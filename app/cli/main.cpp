#include <sys/stat.h>

#include "cli/program.hpp"

int main(int argc, char** argv) {
  // New files may contain payloads, so other users get no access.
  ::umask(::umask(0) | S_IRWXO);
  return twinbox::cli::run(argc, argv);
}
