// The handle that the application holds of an exchange; its loop's thread owns the answer. For http_server.cc and what
// belongs to it.
// Used by http_session.cc.
#pragma once

#include <memory>

#include "serve/http/http_session.h"

namespace sluice {

HttpExchangePtr make_http_exchange(const std::shared_ptr<HttpLoop>& loop, std::shared_ptr<HttpLiveAnswer> answer);

}  // namespace sluice
