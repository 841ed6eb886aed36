#include <sys/stat.h>

#include "cli/program.hpp"

int main(int argc, char** argv) {
  // What it creates holds payloads: no business of other users of the machine.
  ::umask(::umask(0) | S_IRWXO);
  return twinbox::cli::run(argc, argv);
}
