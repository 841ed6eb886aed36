// The functions that a program in any language calls, through plain SQL, beside the C++ API.
#include <algorithm>

#include "support/backend.hpp"
#include "support/postgres.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class PostgresFunction : public BoxTest {
 protected:
  PostgresFunction() : client_(test_store().address()) {
    outbox();
    inbox();
    client_.run("set search_path = \"" + test_store().schema() + "\"");
  }

  /// The functions use the server's own clock; so do these boxes.
  Outbox& real_outbox() {
    if (!real_outbox_) real_outbox_ = std::make_unique<Outbox>(real_database_, options());
    return *real_outbox_;
  }

  std::string call(const std::string& sql) { return client_.value("select " + sql); }
  std::string refusal(const std::string& sql) { return client_.refusal("select " + sql); }
  void expect_refused(const std::string& sql, const std::string& word) {
    const std::string words = refusal(sql);
    EXPECT_TRUE(words.starts_with("22023")) << sql << ": " << words;
    EXPECT_NE(words.find(word), std::string::npos) << sql << ": " << words;
  }

  const std::string owner_ = "'00000000-0000-4000-8000-00000000000a'";
  PgClient client_;

 private:
  Database real_database_{test_store().address()};
  std::unique_ptr<Outbox> real_outbox_;
};

TEST_P(PostgresFunction, OBX_091_enqueue_needs_a_topic_and_a_payload_only) {
  REQUIREMENT("OBX-095");
  const std::string id = call("id from outbox_enqueue('order.placed', '~payload~ \\x é')");
  const auto claimed = real_outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed.front().id.str(), id);
  EXPECT_EQ(claimed.front().source, Source::none());
  EXPECT_EQ(claimed.front().topic.str(), "order.placed");
  EXPECT_EQ(claimed.front().payload, "~payload~ \\x é");
  EXPECT_EQ(claimed.front().content_version, 1);
}

TEST_P(PostgresFunction, enqueue_takes_everything_else_by_name) {
  call(
      "outbox_enqueue(topic => 'order.placed', payload => '~payload~'::text, id => 'order 1', "
      "correlation_id => 'story', partition_key => 'customer 1', headers => '{\"a\": 1}', "
      "content_type => 'text/plain', due_at => '2020-01-01Z', expires_at => '2100-01-01Z')");
  const auto claimed = real_outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  const Message& message = claimed.front();
  EXPECT_EQ(message.id.str(), "order 1");
  EXPECT_EQ(message.correlation_id->str(), "story");
  EXPECT_EQ(message.partition_key->str(), "customer 1");
  EXPECT_EQ(message.headers, "{\"a\": 1}");
  EXPECT_EQ(message.content_type, "text/plain");
  EXPECT_EQ(message.due_at, Instant{std::chrono::sys_days{std::chrono::January / 1 / 2020}});
  EXPECT_EQ(message.expires_at, Instant{std::chrono::sys_days{std::chrono::January / 1 / 2100}});
}

TEST_P(PostgresFunction, enqueue_takes_binary_payloads_and_empty_ones) {
  call("outbox_enqueue('a', '\\x00ff00'::bytea)");
  call("outbox_enqueue('b', '', correlation_id => '')");
  const auto claimed = real_outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 2u);
  EXPECT_EQ(claimed[0].payload, std::string("\0\xff\0", 3));
  EXPECT_EQ(claimed[1].payload, "");
  EXPECT_FALSE(claimed[1].correlation_id);
}

TEST_P(PostgresFunction, OBX_003_enqueue_belongs_to_the_callers_transaction) {
  client_.begin();
  call("outbox_enqueue('order.placed', '~payload~')");
  client_.rollback();
  EXPECT_EQ(call("count(*) from outbox_message"), "0");
}

TEST_P(PostgresFunction, enqueue_again_with_the_same_id_is_the_same_message) {
  const auto enqueue = [&](const std::string& rest) { return call("outbox_enqueue(" + rest); };
  EXPECT_EQ(enqueue("'a', '~payload~1', 'same')"), "(same,f,f)");
  EXPECT_EQ(enqueue("'a', '~payload~1', 'same')"), "(same,t,f)");
  EXPECT_EQ(enqueue("'a', '~payload~2', 'same')"), "(same,t,t)");
  EXPECT_EQ(enqueue("'b', '~payload~1', 'same')"), "(same,t,t)");
  const auto claimed = real_outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed.front().topic.str(), "a");
  EXPECT_EQ(claimed.front().payload, "~payload~1");
}

TEST_P(PostgresFunction, OBX_095_claim_ack_abandon_fail_and_reap_work_together) {
  REQUIREMENT("OBX-101");
  for (int i = 0; i < 4; ++i) call("outbox_enqueue('order.placed', '~payload~')");
  const std::string claim =
      "string_agg(delivery_id || ':' || epoch, ' ' order by delivery_id) from "
      "outbox_claim(" +
      owner_ + ", interval '1 minute', 10)";
  EXPECT_EQ(call(claim), "1:1 2:1 3:1 4:1");
  EXPECT_EQ(call(claim), "null");
  EXPECT_EQ(call("outbox_ack(" + owner_ + ", array[1, 1, 99])"), "1");
  EXPECT_EQ(call("outbox_ack(" + owner_ + ", array[1])"), "0");
  EXPECT_EQ(call("outbox_ack(" + owner_ + ", array[2], epochs => array[7])"), "0");
  EXPECT_EQ(call("outbox_abandon(" + owner_ + ", array[2], error => 'later', delay => '1 hour')"),
            "1");
  EXPECT_EQ(call("outbox_fail(" + owner_ + ", array[3], 'never', reason => 'poison')"), "1");
  EXPECT_EQ(call("count(*) from outbox_reap()"), "0");
  EXPECT_EQ(call("count(*) from outbox_reap(10, at => now() + interval '2 minutes')"), "1");
  EXPECT_EQ(call("string_agg(status::text, ' ' order by id) from outbox"), "2 0 3 0");
  EXPECT_EQ(call("retrycount || ' ' || lasterror from outbox where id = 2"), "1 later");
  EXPECT_EQ(call("reason || ' ' || last_error from outbox_outcome where delivery_id = 3"),
            "poison never");
  EXPECT_EQ(call("string_agg(delivery_id || ' ' || error, ', ' order by id) from outbox_failure"),
            "2 later, 3 never");
  EXPECT_EQ(real_outbox().claim(worker_b, 30s, 10).size(), 1u) << "the one that was reaped";
}

TEST_P(PostgresFunction, OBX_095_reap_without_a_limit_clears_every_lease_that_ran_out) {
  EXPECT_EQ(call("count(outbox_enqueue('t', 'p')) from generate_series(1, 1001)"), "1001");
  EXPECT_EQ(call("count(*) from outbox_claim(" + owner_ + ", interval '1 minute', 2000)"), "1001");
  EXPECT_EQ(call("count(*) from outbox_reap(at => now() + interval '2 minutes')"), "1001");
}

TEST_P(PostgresFunction, an_endless_error_is_cut_with_a_mark) {
  const std::string endless = "repeat('é', 100000)";
  const auto claimed = [&] {
    return "array(select delivery_id from outbox_claim(" + owner_ + ", '30 seconds', 1))";
  };
  const std::string kept = "select length(last_error) || right(last_error, 7) from {schema}outbox_";
  call("outbox_enqueue('a', '~payload~')");
  EXPECT_EQ(call("outbox_abandon(" + owner_ + ", " + claimed() + ", " + endless + ")"), "1");
  EXPECT_EQ(read(kept + "work"), "4000… (cut)");
  call("outbox_enqueue('b', '~payload~')");
  EXPECT_EQ(call("outbox_fail(" + owner_ + ", " + claimed() + ", " + endless + ")"), "1");
  EXPECT_EQ(read(kept + "outcome"), "4000… (cut)");
}

TEST_P(PostgresFunction, fail_holds_the_partition_key_when_it_is_asked_to) {
  for (int i = 0; i < 3; ++i) call("outbox_enqueue('t', 'p', partition_key => 'k')");
  const std::string claim =
      "delivery_id from outbox_claim(" + owner_ + ", interval '1 minute', 10)";
  const auto fail = [&](const std::string& more) {
    return call("outbox_fail(" + owner_ + ", array[" + call(claim) + "]::bigint[], 'no'" + more +
                ")");
  };
  EXPECT_EQ(fail(""), "1");
  EXPECT_EQ(fail(", hold_keys => true"), "1") << "the first one has let the second one go";
  EXPECT_EQ(call(claim), "no row");
  EXPECT_EQ(call("partition_key from outbox_hold"), "k");
}

TEST_P(PostgresFunction, a_program_in_sql_and_one_in_cpp_share_the_work) {
  real_outbox().enqueue(a_message());
  real_outbox().enqueue(a_message());
  const auto held = real_outbox().claim(worker_b, 30s, 1);
  const std::string id =
      call("delivery_id from outbox_claim(" + owner_ + ", interval '1 minute', batch_size => 10)");
  EXPECT_NE(id, std::to_string(held.front().delivery_id.number()));
  EXPECT_EQ(call("outbox_ack(" + owner_ + ", array[" +
                 std::to_string(held.front().delivery_id.number()) + "])"),
            "0");
  EXPECT_EQ(real_outbox().ack(worker_b, held), 1u);
  EXPECT_EQ(real_outbox().ack(worker_a, DeliveryId{std::stoll(id)}), 1u);
}

TEST_P(PostgresFunction, accept_answers_what_became_of_a_message) {
  const std::string accept =
      "state from inbox_accept('stripe', 'evt_1', 'payment', '~payload~'::text)";
  EXPECT_EQ(call(accept), "accepted");
  EXPECT_EQ(call(accept), "duplicate_open");
  const std::string claim = "delivery_id from inbox_claim(" + owner_ + ", '1 minute', 1)";
  EXPECT_EQ(call("inbox_ack(" + owner_ + ", array(select " + claim + "))"), "1");
  EXPECT_EQ(call(accept), "duplicate_done");
  EXPECT_EQ(inbox().state(a_key("evt_1")), MessageState::done);
  EXPECT_EQ(call("state from inbox_accept('stripe', 'evt_2', 'payment', '\\x00'::bytea)"),
            "accepted");
  EXPECT_EQ(call("inbox_fail(" + owner_ + ", array(select " + claim + "), 'no')"), "1");
  EXPECT_EQ(call("state from inbox_accept('stripe', 'evt_2', 'payment', '')"), "duplicate_dead");
  EXPECT_EQ(call("inbox_abandon(" + owner_ + ", array[1])"), "0");
  EXPECT_EQ(call("count(*) from inbox_reap()"), "0");
}

TEST_P(PostgresFunction, accept_answers_a_row_with_the_state_a_duplicate_and_a_conflict) {
  const auto accept = [&](const std::string& more) {
    return call("a::text from inbox_accept('stripe', 'evt_1', " + more + ") a");
  };
  EXPECT_EQ(accept("'payment', 'one'"), "(accepted,f,f)");
  EXPECT_EQ(accept("'payment', 'one'"), "(duplicate_open,t,f)");
  EXPECT_EQ(accept("'payment', 'two'"), "(duplicate_open,t,t)");
  EXPECT_EQ(accept("'refund', 'one'"), "(duplicate_open,t,t)");
  EXPECT_EQ(accept("'payment', 'one', handlers => array['mail']"), "(duplicate_open,t,f)");
  EXPECT_EQ(accept("'payment', '\\x6f6e65'::bytea"), "(duplicate_open,t,f)");
  EXPECT_EQ(call("convert_from(payload, 'UTF8') from inbox_message"), "one") << "the first stays";
  EXPECT_TRUE(inbox().mark_processed(a_key()));
  EXPECT_EQ(accept("'payment', 'two'"), "(duplicate_done,t,t)");
}

TEST_P(PostgresFunction, accept_compares_hashes) {
  const auto accept = [&](const std::string& hash) {
    return call("conflict from inbox_accept('s', 'e', 't', 'p', hash => " + hash + ")");
  };
  EXPECT_EQ(accept("'\\x01'"), "f");
  EXPECT_EQ(accept("'\\x01'"), "f");
  EXPECT_EQ(accept("'\\x02'"), "t");
  EXPECT_EQ(accept("null"), "f");
}

TEST_P(PostgresFunction, accept_makes_a_delivery_for_each_handler) {
  EXPECT_EQ(call("state from inbox_accept('s', 'e', 't', '', handlers => array['mail', 'ledger'])"),
            "accepted");
  EXPECT_EQ(call("state from inbox_accept('s', 'e', 't', '', handlers => array['mail'])"),
            "duplicate_open");
  EXPECT_EQ(call("state from inbox_accept('s', 'e', 't', '', handlers => array['audit'])"),
            "accepted");
  EXPECT_EQ(call("string_agg(handler, ' ' order by handler) from inbox_work"), "audit ledger mail");
}

TEST_P(PostgresFunction, wrong_arguments_are_named_before_anything_is_written) {
  const std::string id256(256, 'x');
  const std::string wide = "repeat(U&'\\+01F600', 128)";
  for (const char* topic : {"null", "''", "E' \\t\\n'"}) {
    expect_refused("outbox_enqueue(" + std::string{topic} + ", 'p')", "topic");
    expect_refused("inbox_accept('s', 'e', " + std::string{topic} + ", 'p')", "topic");
    expect_refused("inbox_accept(" + std::string{topic} + ", 'e', 't', 'p')", "source");
    expect_refused("inbox_accept('s', " + std::string{topic} + ", 't', 'p')", "id");
  }
  expect_refused("outbox_enqueue(" + wide + ", 'p')", "topic");
  EXPECT_EQ(refusal("outbox_enqueue(repeat(U&'\\+01F600', 127), 'p')"), "");
  client_.run("truncate outbox_message, outbox_work");
  expect_refused("outbox_enqueue('t', null::bytea)", "payload");
  expect_refused("outbox_enqueue('t', null::text)", "payload");
  expect_refused("outbox_enqueue('t', 'p', id => '" + id256 + "')", "id");
  expect_refused("outbox_enqueue('t', 'p', correlation_id => '" + id256 + "')", "correlation_id");
  expect_refused("outbox_enqueue('t', 'p', partition_key => '" + id256 + "')", "partition_key");
  for (const char* headers : {"[]", "1", "no json", ""}) {
    expect_refused("outbox_enqueue('t', 'p', headers => '" + std::string{headers} + "')",
                   "headers");
  }
  for (const char* hash :
       {"''", "'\\x01', hash_algorithm => ''", "'\\x01', hash_algorithm => ' '",
        "'\\x01', hash_algorithm => null", "'\\x01', hash_algorithm => repeat('a', 256)"}) {
    expect_refused("inbox_accept('s', 'e', 't', 'p', hash => " + std::string{hash} + ")", "hash");
  }
  for (const char* content_type : {"' '", "repeat('a', 1001)"}) {
    const std::string named = ", content_type => " + std::string{content_type} + ")";
    expect_refused("outbox_enqueue('t', 'p'" + named, "content_type");
    expect_refused("inbox_accept('s', 'e', 't', 'p'" + named, "content_type");
  }
  for (const char* handlers : {"null", "'{}'", "array['a', 'a']", "array[null]"}) {
    expect_refused("inbox_accept('s', 'e', 't', 'p', handlers => " + std::string{handlers} + ")",
                   "handlers");
  }
  expect_refused("inbox_accept('s', 'e', 't', 'p', handlers => array[repeat('h', 201)])",
                 "handler");
  for (const char* table : {"outbox_message", "outbox_work", "inbox_message", "inbox_work"}) {
    EXPECT_EQ(call("count(*) from " + std::string{table}), "0") << table;
  }
}

TEST_P(PostgresFunction, accept_takes_a_content_type_and_a_hash_as_the_library_does) {
  EXPECT_EQ(refusal("inbox_accept('s', '1', 't', 'p', content_type => '', hash_algorithm => null)"),
            "");
  EXPECT_EQ(refusal("inbox_accept('s', '2', 't', 'p', content_type => repeat('a', 1000), "
                    "hash => '\\x01', hash_algorithm => repeat('a', 255))"),
            "");
  EXPECT_EQ(call("string_agg(concat_ws(' ', id, length(content_type), encode(hash, 'hex'), "
                 "length(hash_algorithm)), ', ' order by id) from inbox_message"),
            "1 0, 2 1000 01 255");
}

TEST_P(PostgresFunction, IBX_130_wrong_owners_leases_and_limits_are_named) {
  for (const char* owner : {"null", "'00000000-0000-0000-0000-000000000000'"}) {
    const std::string none = owner;
    expect_refused("count(*) from outbox_claim(" + none + ", '1 minute', 1)", "owner");
    expect_refused("outbox_ack(" + none + ", array[1])", "owner");
    expect_refused("outbox_abandon(" + none + ", array[1])", "owner");
    expect_refused("outbox_fail(" + none + ", array[1], 'error')", "owner");
  }
  for (const char* lease : {"null", "'0 s'", "'-1 s'"}) {
    expect_refused("count(*) from outbox_claim(" + owner_ + ", " + lease + ", 1)", "lease");
  }
  for (const char* limit : {"null", "0", "-1"}) {
    expect_refused("count(*) from outbox_claim(" + owner_ + ", '1 s', " + limit + ")",
                   "batch_size");
    expect_refused("count(*) from outbox_reap(" + std::string{limit} + ")", "batch_size");
  }
  for (const std::string name : {"ack", "abandon", "fail"}) {
    const std::string error = name == "fail" ? ", 'error'" : "";
    expect_refused(
        "outbox_" + name + "(" + owner_ + ", array[98, 2]" + error + ", epochs => array[1])",
        "outbox_" + name + ": ids has 2 elements and epochs has 1");
    expect_refused(
        "outbox_" + name + "(" + owner_ + ", array[98]" + error + ", epochs => array[1, 2])",
        "outbox_" + name + ": ids has 1 elements and epochs has 2");
  }
  expect_refused("outbox_abandon(" + owner_ + ", array[1], delay => '0 s')", "delay");
  for (const char* ids : {"null", "'{}'"}) {
    EXPECT_EQ(call("outbox_ack(" + owner_ + ", " + ids + ")"), "0");
    EXPECT_EQ(call("outbox_abandon(" + owner_ + ", " + ids + ", 'error')"), "0");
    EXPECT_EQ(call("outbox_fail(" + owner_ + ", " + ids + ", 'error')"), "0");
  }
}

TEST_P(PostgresFunction, OBX_093_a_function_whose_text_has_changed_is_replaced_at_the_next_deploy) {
  Schema schema(database(), BoxKind::outbox, options());
  ASSERT_TRUE(schema.check().current());
  client_.run(
      "create or replace function outbox_ack(owner uuid, ids bigint[], epochs int[] default "
      "null, at timestamptz default null) returns bigint language sql as 'select 42::bigint'");
  client_.run(
      "update twinbox_schema set hash = 'older' where box = 'outbox' and name = "
      "'function/work'");
  EXPECT_EQ(schema.check().pending, std::vector<std::string>{"function/work"});
  EXPECT_EQ(schema.deploy(), std::vector<std::string>{"function/work"});
  EXPECT_EQ(call("outbox_ack(" + owner_ + ", array[1])"), "0");
  EXPECT_TRUE(schema.deploy().empty());
}

TEST_P(PostgresFunction, the_functions_need_nothing_from_the_callers_search_path) {
  client_.run("set search_path = pg_temp");
  const std::string schema = "\"" + test_store().schema() + "\".";
  call(schema + "outbox_enqueue('t', '~payload~', partition_key => 'k')");
  call(schema + "inbox_accept('s', 'e', 't', '~payload~')");
  const std::string claim =
      "delivery_id from " + schema + "outbox_claim(" + owner_ + ", '1 min', 1)";
  EXPECT_EQ(call(schema + "outbox_ack(" + owner_ + ", array(select " + claim + "))"), "1");
}

TWINBOX_ON_BACKENDS(PostgresFunction, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
