// Numbers of PostgreSQL's built-in types; they are part of its wire protocol and never change.
#pragma once

#include <libpq-fe.h>

namespace twinbox::postgres::oid {

inline constexpr Oid boolean = 16, bytea = 17, character = 18, name = 19, int8 = 20, int2 = 21,
                     int4 = 23, text = 25, oid = 26, json = 114, xml = 142, float4 = 700,
                     float8 = 701, unknown = 705, bpchar = 1042, varchar = 1043, timestamp = 1114,
                     timestamptz = 1184, uuid = 2950, jsonb = 3802;

inline constexpr Oid boolean_array = 1000, bytea_array = 1001, text_array = 1009, int8_array = 1016,
                     float8_array = 1022, timestamptz_array = 1185, uuid_array = 2951;

/// User-defined types begin here.
inline constexpr Oid first_user_defined = 16384;

}  // namespace twinbox::postgres::oid
