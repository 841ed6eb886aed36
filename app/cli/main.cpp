#include "cli/program.hpp"

int main(int argc, char** argv) { return twinbox::cli::run(argc, argv); }
