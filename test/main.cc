#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <csignal>

int main(int argc, char** argv) {
  // Under nohup SIGHUP is ignored, here and in the programs that tests start.
  std::signal(SIGHUP, SIG_DFL);
  return Catch::Session().run(argc, argv);
}
