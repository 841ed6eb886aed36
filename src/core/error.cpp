#include "twinbox/error.hpp"

namespace twinbox {

std::string_view to_string(DatabaseError::Kind kind) noexcept {
  using Kind = DatabaseError::Kind;
  switch (kind) {
    case Kind::connection_lost: return "connection_lost";
    case Kind::contention: return "contention";
    case Kind::commit_in_doubt: return "commit_in_doubt";
    case Kind::out_of_space: return "out_of_space";
    case Kind::read_only: return "read_only";
    case Kind::not_synchronous: return "not_synchronous";
    case Kind::corrupt: return "corrupt";
    case Kind::permission: return "permission";
    case Kind::missing_schema: return "missing_schema";
    case Kind::cancelled: return "cancelled";
    case Kind::invalid_request: return "invalid_request";
    case Kind::other: return "other";
  }
  return "other";
}

}  // namespace twinbox
