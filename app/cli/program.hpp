// Parses the command line, runs the command, and turns errors into exit codes.
#pragma once

namespace twinbox::cli {

int run(int argc, char** argv);

}  // namespace twinbox::cli
