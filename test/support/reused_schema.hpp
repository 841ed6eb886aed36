// Schemas of the tests on a SQL Server. Making the tables and procedures takes seconds there, so
// that a test hands on what it has left as it found it.
#pragma once

#include <string>

#include <twinbox/database.hpp>

namespace twinbox::test {

/// The server's address; empty when nobody has named one.
std::string sqlserver_address();

/// Whether that server only stands in for SQL Server: Babelfish, which some tests ask too much of.
bool is_stand_in();

/// A schema for the running test: without rows, or new when the test is about schemas themselves.
std::string take_sqlserver_schema();
/// Deletes its rows and keeps it for another test; drops it when the test has `changed` its tables.
void return_sqlserver_schema(const std::string& schema, bool changed);

/// Drops a schema with all that is in it.
void drop_sqlserver_schema(Database& database, const std::string& schema);

}  // namespace twinbox::test
