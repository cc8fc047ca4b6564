// The compiled part of Asio and Beast, once, so that http_server.cc compiles in seconds.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
