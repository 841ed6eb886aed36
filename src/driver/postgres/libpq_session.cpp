#include <new>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "driver/postgres/failure.hpp"
#include "driver/postgres/oids.hpp"
#include "driver/postgres/parameters.hpp"
#include "driver/postgres/result.hpp"
#include "sql/render.hpp"
#include "sql/statement.hpp"
#include "twinbox/session.hpp"

namespace twinbox {
namespace {

using postgres::Format;
using postgres::Parameters;
using postgres::Result;

std::string where(const PGconn* connection) {
  const auto text = [](const char* value) { return std::string{value == nullptr ? "" : value}; };
  return "postgresql://" + text(PQuser(connection)) + "@" + text(PQhost(connection)) + ":" +
         text(PQport(connection)) + "/" + text(PQdb(connection));
}

void check(PGconn* connection) {
  if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF) {
    throw UsageError(
        "LibpqSession: the connection is in pipeline mode: leave it with PQexitPipelineMode before "
        "this call");
  }
  if (PQisnonblocking(connection) != 0) {
    throw UsageError(
        "LibpqSession: the connection does not block: call PQsetnonblocking(connection, 0) before "
        "this call");
  }
  switch (PQtransactionStatus(connection)) {
    case PQTRANS_INTRANS: return;
    case PQTRANS_INERROR:
      throw UsageError(
          "LibpqSession: the transaction is aborted by an earlier error: roll it back and begin "
          "again");
    case PQTRANS_ACTIVE:
      throw UsageError(
          "LibpqSession: a statement is still running on the connection: read its result with "
          "PQgetResult first");
    case PQTRANS_IDLE:
      throw UsageError("LibpqSession: no transaction is open on the connection: begin one first");
    case PQTRANS_UNKNOWN: break;
  }
  throw postgres::failure(DatabaseError::Kind::connection_lost, "LibpqSession",
                          {"", postgres::first_line(PQerrorMessage(connection))}, where(connection),
                          true);
}

/// Ends a COPY that has no reader or writer, so that the caller's connection stays usable.
void end_copy(PGconn* connection, ExecStatusType status) {
  if (status == PGRES_COPY_IN) PQputCopyEnd(connection, "COPY cannot be used here");
  char* data = nullptr;
  while (status == PGRES_COPY_OUT && PQgetCopyData(connection, &data, 0) > 0) PQfreemem(data);
  while (const Result result{PQgetResult(connection)}) {
  }
}

Result run(PGconn* connection, const std::string& sql, const Parameters& parameters, Format format,
           std::string_view statement, bool ours) {
  Result result{PQexecParams(connection, sql.c_str(), parameters.count(), parameters.types().data(),
                             parameters.values(), parameters.lengths(), parameters.formats(),
                             static_cast<int>(format))};
  if (result == nullptr) throw std::bad_alloc{};
  const auto status = PQresultStatus(result.get());
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY)
    return result;
  if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT) {
    end_copy(connection, status);
    throw postgres::failure(DatabaseError::Kind::invalid_request, statement,
                            {"0A000", "COPY cannot be used here: use insert or select"},
                            where(connection), ours);
  }
  throw postgres::failure(statement, postgres::server_error_of(result.get()), where(connection),
                          ours);
}

}  // namespace

LibpqSession::LibpqSession(pg_conn* connection) : connection_(connection) {
  if (connection == nullptr) {
    throw UsageError("LibpqSession: the connection is null: pass an open PGconn*");
  }
}

Dialect LibpqSession::dialect() const noexcept { return Dialect::postgres; }

std::size_t LibpqSession::execute(const Statement& statement, std::span<const Arg> args,
                                  RowSink rows) {
  check(connection_);
  const auto form = postgres::StatementForm::of(statement, args, false);
  std::vector<Result> results;
  for (const auto& step : form.steps) {
    const Parameters parameters{step.params, args, statement.name, 0, form.columns};
    results.push_back(run(connection_, step.sql, parameters, Format::binary, statement.name, true));
  }
  for (const auto& result : results) postgres::deliver(result.get(), rows);
  return results.empty() ? 0 : postgres::row_count(results.back().get());
}

std::size_t LibpqSession::execute_text(std::string_view sql, std::span<const Arg> args,
                                       RowSink rows) {
  check(connection_);
  const auto [text, names] = rewrite_parameters(sql, Dialect::postgres);
  const Parameters parameters{names, args, "execute", postgres::oid::bytea};
  const auto result = run(connection_, text, parameters, Format::text, "execute", false);
  postgres::deliver(result.get(), rows);
  return postgres::row_count(result.get());
}

bool LibpqSession::in_transaction() const {
  return PQtransactionStatus(connection_) == PQTRANS_INTRANS;
}

}  // namespace twinbox
