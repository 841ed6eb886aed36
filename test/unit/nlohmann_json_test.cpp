// The errors of the binding quote nothing of a payload: they are kept with the message and shown to
// operators who may not read payloads. The library's own texts, with its diagnostics, would.
#define JSON_DIAGNOSTICS 1
#include "twinbox/nlohmann_json.hpp"

#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace twinbox {
namespace {

struct Order {
  int number = 0;
  std::string customer;
  std::map<std::string, std::vector<int>> amounts;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Order, number, customer, amounts)
};

std::string error_of(const std::string& payload) {
  try {
    Decode<Order>::from(payload);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(NlohmannJson, reads_and_writes_a_type) {
  const Order order = Decode<Order>::from(Encode<Order>::to({7, "Ann", {{"a", {1, 2}}}}));
  EXPECT_EQ(order.number, 7);
  EXPECT_EQ(order.customer, "Ann");
  EXPECT_EQ(order.amounts.at("a"), (std::vector{1, 2}));
}

TEST(NlohmannJson, an_error_names_its_kind) {
  EXPECT_EQ(error_of(R"({"number":)"), "the payload is not JSON, at byte 11");
  EXPECT_EQ(error_of("1e999"), "the payload holds a number that is too large");
  EXPECT_NE(error_of(R"({"number":7})").find("403"), std::string::npos);
  EXPECT_NE(error_of("[]").find("304"), std::string::npos);
  EXPECT_EQ(error_of(R"({"number":"7"})"),
            "the payload is not of this type, by error 302 of nlohmann::json");
}

TEST(NlohmannJson, no_error_quotes_the_payload) {
  for (const char* payload :
       {R"(4111111111111111)", R"("4111111111111111")", R"(4111111111111111e4111)",
        R"({"card":4111111111111111e4111})", R"({"card":4111111111111111)",
        R"({"card":"4111111111111111)", R"({4111111111111111})", R"(4111111111111111 411111)",
        R"({"4111111111111111":1})", R"({"number":"4111111111111111"})",
        R"({"number":7,"customer":4111111111111111})",
        R"({"number":7,"customer":"Ann","amounts":{"4111111111111111":1}})",
        R"({"number":7,"customer":"Ann","amounts":{"4111111111111111":["4111"]}})",
        "\"4111111111111111\xff\"", R"("4111111111111111\u12")", R"([4111111111111111,])"}) {
    const std::string error = error_of(payload);
    EXPECT_NE(error, "none") << payload;
    EXPECT_EQ(error.find("4111"), std::string::npos) << error;
    EXPECT_EQ(error.find("card"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace twinbox
