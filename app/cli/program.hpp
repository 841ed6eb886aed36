// The program: reads the command line, runs the verb, and turns what went wrong into an exit code.
#pragma once

namespace twinbox::cli {

int run(int argc, char** argv);

}  // namespace twinbox::cli
