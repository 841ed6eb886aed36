// The whole core library: outbox, inbox, handlers, dispatcher, operations. Events, intake, sinks
// and brokers have headers and libraries of their own, as do the adapters for pqxx, spdlog,
// nlohmann::json and Boost.JSON.
#pragma once

#include "twinbox/channel.hpp"
#include "twinbox/database.hpp"
#include "twinbox/dispatcher.hpp"
#include "twinbox/environment.hpp"
#include "twinbox/error.hpp"
#include "twinbox/handler.hpp"
#include "twinbox/health.hpp"
#include "twinbox/housekeeping.hpp"
#include "twinbox/ids.hpp"
#include "twinbox/inbox.hpp"
#include "twinbox/message.hpp"
#include "twinbox/operations.hpp"
#include "twinbox/outbox.hpp"
#include "twinbox/outcome.hpp"
#include "twinbox/schema.hpp"
#include "twinbox/session.hpp"
#include "twinbox/stores.hpp"
#include "twinbox/typed.hpp"
#include "twinbox/work_queue.hpp"
