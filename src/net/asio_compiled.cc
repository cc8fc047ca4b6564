// The compiled part of Asio and Beast, once, for all files that define the same two words: they compile in seconds.
// Debug builds, too: one of Beast's assertions about chunks does not hold for some input that a client can send. The
// parser then reports an error of the request (fuzz_http sees it under the address sanitizer).
#define BOOST_DISABLE_ASSERTS
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
