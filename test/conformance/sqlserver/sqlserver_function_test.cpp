// The procedures that a program in any language calls, through plain T-SQL, beside the C++ API; and
// the rights it needs.
#include "support/backend.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SqlserverProcedure : public BoxTest {
 protected:
  void SetUp() override {
    if (IsSkipped()) return;
    outbox();
    inbox();
  }

  /// The procedures use the server's own clock; so does this box.
  Outbox& real_outbox() {
    if (!real_outbox_) {
      real_database_ = std::make_unique<Database>(test_store().address());
      real_outbox_ = std::make_unique<Outbox>(*real_database_, options());
    }
    return *real_outbox_;
  }

  std::string call(const std::string& sql) { return read("exec {schema}" + sql); }
  std::vector<std::string> all(const std::string& sql) {
    std::vector<std::string> rows;
    database().in_transaction([&](Session& session) {
      session.execute(in_schema(sql), {}, [&](const Row& row) { rows.emplace_back(row.text(0)); });
    });
    return rows;
  }
  void expect_refused(const std::string& sql, const std::string& word) {
    try {
      call(sql);
      ADD_FAILURE() << "was not refused: " << sql;
    } catch (const DatabaseError& error) {
      EXPECT_EQ(error.kind(), DatabaseError::Kind::invalid_request) << sql << ": " << error.what();
      EXPECT_NE(std::string{error.what()}.find(word), std::string::npos)
          << sql << ": " << error.what();
    }
  }

  const std::string owner_ = "'00000000-0000-4000-8000-00000000000a'";

 private:
  std::unique_ptr<Database> real_database_;
  std::unique_ptr<Outbox> real_outbox_;
};

TEST_P(SqlserverProcedure, OBX_091_enqueue_needs_a_topic_and_a_payload_only) {
  REQUIREMENT("OBX-095");
  const std::string id = call("outbox_enqueue N'order.placed', 0x00FF00");
  const auto claimed = real_outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed.front().id.str(), id);
  EXPECT_EQ(claimed.front().source, Source::none());
  EXPECT_EQ(claimed.front().topic.str(), "order.placed");
  EXPECT_EQ(claimed.front().payload, std::string("\0\xff\0", 3));
  EXPECT_EQ(claimed.front().content_version, 1);
}

TEST_P(SqlserverProcedure, enqueue_takes_everything_else_by_name) {
  call(
      "outbox_enqueue @topic = N'order.placed', @payload = 0x, @id = N'order 1', "
      "@correlation_id = N'story', @partition_key = N'customer 1', @headers = N'{\"a\": 1}', "
      "@content_type = N'text/plain', @due_at = '2020-01-01', @expires_at = '2100-01-01'");
  const auto claimed = real_outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  const Message& message = claimed.front();
  EXPECT_EQ(message.id.str(), "order 1");
  EXPECT_EQ(message.payload, "");
  EXPECT_EQ(message.correlation_id->str(), "story");
  EXPECT_EQ(message.partition_key->str(), "customer 1");
  EXPECT_EQ(message.headers, "{\"a\": 1}");
  EXPECT_EQ(message.content_type, "text/plain");
  EXPECT_EQ(message.due_at, Instant{std::chrono::sys_days{std::chrono::January / 1 / 2020}});
  EXPECT_EQ(message.expires_at, Instant{std::chrono::sys_days{std::chrono::January / 1 / 2100}});
}

TEST_P(SqlserverProcedure, OBX_003_enqueue_belongs_to_the_callers_transaction) {
  struct Rollback {};
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    session.execute(in_schema("exec {schema}outbox_enqueue N'order.placed', 0x01"));
    throw Rollback{};
  }),
               Rollback);
  EXPECT_EQ(read("select count(*) from {schema}outbox_message"), "0");
}

TEST_P(SqlserverProcedure, enqueue_again_with_the_same_id_is_the_same_message) {
  EXPECT_EQ(call("outbox_enqueue N'a', 0x01, N'same'"), "same");
  EXPECT_EQ(call("outbox_enqueue N'b', 0x02, N'same'"), "same");
  const auto claimed = real_outbox().claim(worker_a, 30s, 10);
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed.front().topic.str(), "a");
}

TEST_P(SqlserverProcedure, OBX_095_claim_ack_abandon_fail_and_reap_work_together) {
  REQUIREMENT("OBX-101");
  using Rows = std::vector<std::string>;
  for (int i = 0; i < 5; ++i) call("outbox_enqueue N'order.placed', 0x01");
  const std::string claim = "exec {schema}outbox_claim " + owner_ + ", 60, 10";
  const Rows ids = all(claim);
  ASSERT_EQ(ids.size(), 5u);
  EXPECT_TRUE(all(claim).empty());
  const auto act = [&](const std::string& name, const std::string& id, const std::string& more) {
    return "exec {schema}outbox_" + name + " " + owner_ + ", N'[" + id + "]'" + more;
  };
  EXPECT_EQ(read(act("ack", ids[0] + ", " + ids[0] + ", 999999", "")), "1");
  EXPECT_EQ(read(act("ack", ids[0], "")), "0");
  EXPECT_EQ(read(act("ack", ids[1], ", @epochs = N'[7]'")), "0");
  EXPECT_EQ(read(act("abandon", ids[1], ", N'say \"later\" ~q', 3600, @epochs = N'[1]'")), "1");
  EXPECT_EQ(read(act("fail", ids[2], ", N'never', N'poison'")), "1");
  EXPECT_EQ(all(act("release", ids[3], "")), Rows{ids[3]});
  EXPECT_EQ(all(act("renew", ids[3] + ", " + ids[4], ", 60")), Rows{ids[4]});
  EXPECT_TRUE(all("exec {schema}outbox_reap").empty());
  const std::string later = "declare @later datetime2(6) = dateadd(minute, 2, sysutcdatetime()); ";
  EXPECT_EQ(all(later + "exec {schema}outbox_reap 10, @later"), Rows{ids[4]});
  EXPECT_EQ(all("select status from {schema}outbox order by id"), (Rows{"2", "0", "3", "0", "0"}));
  EXPECT_EQ(read("select lasterror from {schema}outbox where id = " + ids[1]), "say \"later\" ~q");
  EXPECT_EQ(read("select reason from {schema}outbox_outcome where delivery_id = " + ids[2]),
            "poison");
  EXPECT_EQ(all("select error from {schema}outbox_failure order by id"),
            (Rows{"say \"later\" ~q", "never"}));
  const auto rest = real_outbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(rest.size(), 1u) << "what was reaped had an owner that died: it is handed out alone";
  EXPECT_EQ(rest.front().delivery_id, DeliveryId{std::stoll(ids[3])});
}

TEST_P(SqlserverProcedure, fail_holds_the_partition_key_when_it_is_asked_to) {
  for (int i = 0; i < 3; ++i) call("outbox_enqueue N't', 0x01, @partition_key = N'k'");
  const std::string claim = "exec {schema}outbox_claim " + owner_ + ", 60, 10";
  const auto fail = [&](const std::string& more) {
    return call("outbox_fail " + owner_ + ", N'[" + all(claim).at(0) + "]', N'no'" + more);
  };
  EXPECT_EQ(fail(""), "1");
  EXPECT_EQ(fail(", @hold_keys = 1"), "1") << "the first one has let the second one go";
  EXPECT_TRUE(all(claim).empty());
  EXPECT_EQ(read("select partition_key from {schema}outbox_hold"), "k");
}

TEST_P(SqlserverProcedure, accept_answers_what_became_of_a_message) {
  const std::string accept = "inbox_accept N'stripe', N'evt_1', N'payment', 0x01";
  EXPECT_EQ(call(accept), "accepted");
  EXPECT_EQ(call(accept), "duplicate_open");
  const auto claimed = [&] { return "N'[" + call("inbox_claim " + owner_ + ", 60, 1") + "]'"; };
  EXPECT_EQ(call("inbox_ack " + owner_ + ", " + claimed()), "1");
  EXPECT_EQ(call(accept), "duplicate_done");
  EXPECT_EQ(inbox().state(a_key("evt_1")), MessageState::done);
  EXPECT_EQ(call("inbox_accept N'stripe', N'evt_2', N'payment', 0x, 0x1234"), "accepted");
  EXPECT_EQ(call("inbox_fail " + owner_ + ", " + claimed() + ", N'no'"), "1");
  EXPECT_EQ(call("inbox_accept N'stripe', N'evt_2', N'payment', 0x"), "duplicate_dead");
  EXPECT_EQ(call("inbox_abandon " + owner_ + ", N'[1]'"), "0");
}

TEST_P(SqlserverProcedure, accept_answers_a_row_with_the_state_a_duplicate_and_a_conflict) {
  const auto accept = [&](const std::string& payload) {
    std::string answer;
    database().in_transaction([&](Session& session) {
      session.execute(in_schema("exec {schema}inbox_accept N'stripe', N'evt_1', N't', " + payload),
                      {}, [&](const Row& row) {
                        answer = std::string{row.text(0)} + (row.boolean(1) ? " duplicate" : "") +
                                 (row.boolean(2) ? " conflict" : "");
                      });
    });
    return answer;
  };
  EXPECT_EQ(accept("0x01"), "accepted");
  EXPECT_EQ(accept("0x01"), "duplicate_open duplicate");
  EXPECT_EQ(accept("0x02"), "duplicate_open duplicate conflict");
}

TEST_P(SqlserverProcedure, accept_makes_a_delivery_for_each_handler) {
  const std::string accept = "inbox_accept N's', N'e', N't', 0x, @handler_keys = ";
  EXPECT_EQ(call(accept + "N'[\"mail\", \"ledger\"]'"), "accepted");
  EXPECT_EQ(call(accept + "N'[\"mail\"]'"), "duplicate_open");
  EXPECT_EQ(call(accept + "N'[\"audit\"]'"), "accepted");
  EXPECT_EQ(all("select handler from {schema}inbox_work order by handler"),
            (std::vector<std::string>{"audit", "ledger", "mail"}));
}

TEST_P(SqlserverProcedure, wrong_arguments_are_named_before_anything_is_written) {
  const std::string id256(256, 'x');
  for (const std::string topic : {"null", "N''", "N'  '"}) {
    expect_refused("outbox_enqueue " + topic + ", 0x01", "topic");
    expect_refused("inbox_accept N's', N'e', " + topic + ", 0x01", "topic");
    expect_refused("inbox_accept " + topic + ", N'e', N't', 0x01", "source");
    expect_refused("inbox_accept N's', " + topic + ", N't', 0x01", "id");
  }
  expect_refused("outbox_enqueue N't', null", "payload");
  expect_refused("outbox_enqueue N't', 0x, @id = N'" + id256 + "'", "id");
  expect_refused("outbox_enqueue N't', 0x, @id = N'blank '", "id");
  expect_refused("outbox_enqueue N't', 0x, @correlation_id = N'" + id256 + "'", "correlation_id");
  expect_refused("outbox_enqueue N't', 0x, @partition_key = N'" + id256 + "'", "partition_key");
  for (const std::string headers : {"[]", "1", "no json", ""}) {
    expect_refused("outbox_enqueue N't', 0x, @headers = N'" + headers + "'", "headers");
  }
  const std::string algorithm = "0x01, @hash_algorithm = ";
  for (const std::string& hash :
       {std::string{"0x"}, algorithm + "N''", algorithm + "null", algorithm + "N'" + id256 + "'"}) {
    expect_refused("inbox_accept N's', N'e', N't', 0x, @hash = " + hash, "hash");
  }
  const std::string content_type = "0x, @content_type = N'" + std::string(1001, 'x') + "'";
  expect_refused("outbox_enqueue N't', " + content_type, "content_type");
  expect_refused("inbox_accept N's', N'e', N't', " + content_type, "content_type");
  expect_refused("inbox_accept N's', N'e', N't', 0x, @handler_keys = N'[]'", "handler_keys");
  expect_refused("inbox_accept N's', N'e', N't', 0x, @handler_keys = N'[\"a\", \"a\"]'",
                 "handler_keys");
  expect_refused("outbox_claim null, 60, 1", "owner");
  for (const std::string name : {"renew", "ack", "abandon", "release", "fail"}) {
    const std::string more = name == "renew" ? ", 60" : name == "fail" ? ", N'error'" : "";
    expect_refused("outbox_" + name + " " + owner_ + ", N'[98, 2]'" + more + ", @epochs = N'[1]'",
                   "outbox_" + name + ": ids has 2 elements and epochs has 1");
  }
  expect_refused("outbox_claim " + owner_ + ", 0, 1", "lease_seconds");
  expect_refused("outbox_claim " + owner_ + ", 60, 0", "batch_size");
  expect_refused("outbox_ack " + owner_ + ", N'1, 2'", "ids");
  expect_refused("outbox_abandon " + owner_ + ", N'[1]', @delay_seconds = 0", "delay_seconds");
  expect_refused("outbox_fail " + owner_ + ", N'[1]', null", "error");
  EXPECT_EQ(read("select count(*) from {schema}outbox_message"), "0");
  EXPECT_EQ(read("select count(*) from {schema}inbox_message"), "0");
}

TEST_P(SqlserverProcedure,
       IBX_006_texts_that_differ_in_a_blank_at_the_end_are_refused_not_mixed_up) {
  REQUIREMENT("IBX-014");
  inbox().accept(an_arrival("evt"));
  EXPECT_THROW(inbox().accept(an_arrival("evt ")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(inbox().already_processed(a_key("evt "))), std::invalid_argument);
  EXPECT_EQ(inbox().accept(an_arrival("EVT")).state, Acceptance::accepted);
}

TEST_P(SqlserverProcedure, one_that_was_dropped_is_noticed_and_restored) {
  Schema schema(database(), BoxKind::outbox, options());
  EXPECT_TRUE(schema.check().current());
  write("drop procedure {schema}outbox_check_text");
  EXPECT_EQ(schema.check().pending, std::vector<std::string>{"function/check"});
  EXPECT_EQ(schema.deploy(), std::vector<std::string>{"function/check"});
  EXPECT_TRUE(schema.check().current());
  expect_refused("outbox_enqueue N'', 0x00", "topic");
}

TWINBOX_ON_BACKENDS(SqlserverProcedure, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
