#include "twinbox/session.hpp"

namespace twinbox {

std::string_view to_string(Dialect dialect) noexcept {
  switch (dialect) {
    case Dialect::sqlite: return "sqlite";
    case Dialect::postgres: return "postgres";
    case Dialect::sqlserver: return "sqlserver";
  }
  return "unknown";
}

}  // namespace twinbox
