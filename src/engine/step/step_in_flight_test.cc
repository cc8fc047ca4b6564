// The order of a step's functions is a matter of types: what follows is checked by the compiler. The behaviour is
// tested with the stepper (stepper_test.cc and its like).
#include "engine/step/step_in_flight.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "engine/step/stepper.h"

namespace sluice::step_in_flight_test {
namespace {

template <class T>
concept Begins = requires(T&& t) { std::forward<T>(t).begin(); };
template <class T>
concept Commits = requires(T&& t) { std::forward<T>(t).commit(); };
template <class T>
concept Draws = requires(T&& t) { std::forward<T>(t).draw(SequenceId(0), std::size_t{0}, SamplingParams{}); };
template <class T>
concept Sends = requires(T&& t) { std::forward<T>(t).send(); };
template <class T>
concept Takes = requires(T&& t) { std::forward<T>(t).take(); };
template <class T>
concept Ends = requires(T&& t) { std::forward<T>(t).end(); };
template <class T>
concept CommitsDrafts = requires(T&& t) { std::forward<T>(t).commit_drafts(); };

// Each state has its own functions, and no others.
static_assert(Begins<Stepper&> && !Commits<Stepper&> && !Draws<Stepper&> && !Sends<Stepper&> && !Takes<Stepper&> &&
              !CommitsDrafts<Stepper&>);
static_assert(Commits<BegunStep> && !Draws<BegunStep> && !Sends<BegunStep> && !Takes<BegunStep> && !Ends<BegunStep>);
static_assert(Draws<ComputedStep> && Sends<ComputedStep> && Ends<ComputedStep> && !Commits<ComputedStep> &&
              !Takes<ComputedStep>);
static_assert(Takes<SentStep> && !Draws<SentStep> && !Sends<SentStep> && !Ends<SentStep>);
static_assert(Ends<TakenStep> && !Takes<TakenStep> && !Draws<TakenStep>);

// The call that ends a state consumes its object.
static_assert(!Commits<BegunStep&> && !Sends<ComputedStep&> && !Ends<ComputedStep&> && !Takes<SentStep&> &&
              !Ends<TakenStep&>);

// A later state cannot be made without the earlier one, nor two from one.
template <class T>
constexpr bool kMovesOnly = std::is_move_constructible_v<T> && !std::is_copy_constructible_v<T>;
static_assert(kMovesOnly<BegunStep> && kMovesOnly<ComputedStep> && kMovesOnly<SentStep> && kMovesOnly<TakenStep>);
static_assert(!std::is_default_constructible_v<ComputedStep> && !std::is_constructible_v<ComputedStep, Stepper*> &&
              !std::is_constructible_v<BegunStep, Stepper*, Status> &&
              !std::is_constructible_v<SentStep, StepHandle, bool>);

TEST(StepInFlightTest, AStepThatWasNeverBegunHasNoTokens) {
  TakenStep taken = SentStep().take();
  EXPECT_TRUE(taken.tokens().empty());
  std::move(taken).end();
}

}  // namespace
}  // namespace sluice::step_in_flight_test
