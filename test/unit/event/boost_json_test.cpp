// The errors of the binding quote nothing of a payload: they are kept with the message and shown to
// operators who may not read payloads.
#include "twinbox/boost_json.hpp"

#include <boost/describe.hpp>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace twinbox {
namespace boost_json_test {

struct Order {
  int number = 0;
  std::string customer;
  std::map<std::string, std::vector<int>> amounts;
};
BOOST_DESCRIBE_STRUCT(Order, (), (number, customer, amounts))

std::string error_of(const std::string& payload) {
  try {
    Decode<Order>::from(payload);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(BoostJson, reads_and_writes_a_type) {
  const Order order = Decode<Order>::from(Encode<Order>::to({7, "Ann", {{"a", {1, 2}}}}));
  EXPECT_EQ(order.number, 7);
  EXPECT_EQ(order.customer, "Ann");
  EXPECT_EQ(order.amounts.at("a"), (std::vector{1, 2}));
}

TEST(BoostJson, no_error_quotes_the_payload) {
  for (const char* payload :
       {R"(4111111111111111)", R"("4111111111111111")", R"(4111111111111111e4111)",
        R"({"card":4111111111111111e4111})", R"({"card":4111111111111111)",
        R"({"card":"4111111111111111)", R"({4111111111111111})", R"(4111111111111111 411111)",
        R"({"4111111111111111":1})", R"({"number":"4111111111111111"})",
        R"({"number":7,"customer":4111111111111111,"amounts":{}})",
        R"({"number":7,"customer":"Ann","amounts":{"4111111111111111":1}})",
        R"({"number":7,"customer":"Ann","amounts":{"4111111111111111":["4111"]}})",
        "\"4111111111111111\xff\"", R"("4111111111111111\u12")", R"([4111111111111111,])"}) {
    const std::string error = error_of(payload);
    EXPECT_NE(error, "none") << payload;
    EXPECT_EQ(error.find("4111"), std::string::npos) << error;
    EXPECT_EQ(error.find("card"), std::string::npos) << error;
  }
}

}  // namespace boost_json_test
}  // namespace twinbox
