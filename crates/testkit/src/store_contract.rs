//! What every store must do: one suite of tests, run against each store by the macro
//! [`store_contract!`](crate::store_contract!).
//!
//! | module | what is tested |
//! | --- | --- |
//! | [`samples`] | nothing: what the tests keep, and how they compare it |
//! | [`calls`] | the journal of calls |
//! | [`sessions`] | sessions |
//! | [`messages`] | messages, their parts, and which are being answered |
//! | [`runs`] | runs, what they told, and which are unfinished |
//! | [`usage`] | how much is kept, as quotas count it |
//! | [`guarantees`] | the order of operations, dropped futures, many writers at a time |

pub mod calls;
pub mod guarantees;
pub mod messages;
pub mod runs;
pub mod samples;
pub mod sessions;
pub mod usage;

/// Makes a test of each function of the suite. Takes a function that gives an empty store, and with it whatever has
/// to live as long.
#[macro_export]
macro_rules! store_contract {
    ($open:path) => {
        $crate::store_contract! { $open =>
            calls: a_call_is_kept_as_it_was,
            calls: the_json_of_a_call_is_kept_to_the_byte,
            calls: a_call_under_way_is_not_finished,
            calls: a_call_that_is_changed_under_way_is_kept_as_it_was_in_the_end,
            calls: a_call_can_be_finished_that_was_never_begun,
            calls: a_beginning_that_comes_after_the_end_changes_nothing,
            calls: an_id_that_was_used_names_the_first_call_for_as_long_as_it_is_kept,
            calls: the_first_end_of_a_call_counts,
            calls: the_calls_that_ended_last_are_listed_first,
            calls: calls_are_listed_by_client_and_session,
            calls: calls_are_paged_through_while_others_end,
            calls: the_first_late_answer_to_a_call_is_kept,
            sessions: a_session_is_kept_as_it_was,
            sessions: a_session_is_replaced_and_keeps_its_messages,
            sessions: the_sessions_that_were_updated_last_are_listed_first,
            sessions: sessions_are_listed_by_client,
            sessions: sessions_are_listed_by_agent,
            sessions: sessions_are_listed_by_the_one_they_came_from,
            sessions: a_deleted_session_takes_its_messages_and_finished_calls_along,
            sessions: a_session_can_be_made_anew_after_it_was_deleted,
            sessions: sessions_are_paged_through_while_others_are_made,
            sessions: what_is_unknown_is_not_there,
            messages: a_message_is_kept_as_it_was,
            messages: parts_change_come_and_go,
            messages: messages_stay_in_the_order_of_their_first_save,
            messages: a_message_can_replace_the_one_with_its_id_and_all_after_it,
            messages: messages_are_read_a_page_at_a_time,
            messages: the_newest_messages_are_found_from_any_of_them,
            messages: a_message_without_a_session_is_not_kept,
            messages: a_message_is_known_by_its_session_and_id,
            messages: a_turn_is_open_until_its_message_is_saved_without_it,
            messages: messages_are_saved_together,
            runs: a_run_is_kept_as_it_was,
            runs: runs_stay_in_the_order_of_their_first_save,
            runs: a_run_is_known_by_its_session_and_id,
            runs: without_its_session_a_run_is_not_kept_nor_events_without_their_run,
            runs: runs_and_events_go_with_their_session,
            runs: runs_and_events_stay_when_their_session_changes,
            runs: a_run_is_unfinished_from_its_start_until_it_is_over,
            runs: events_are_kept_as_they_were,
            runs: events_are_not_kept_twice,
            runs: events_after_a_gap_are_refused,
            runs: a_hundred_thousand_events_are_kept,
            usage: sessions_and_bytes_are_counted,
            usage: what_changes_hands_is_counted_where_it_is,
            guarantees: a_read_sees_writes_that_nobody_has_waited_for,
            guarantees: the_order_is_that_of_the_calls_not_of_the_waiting,
            guarantees: a_dropped_future_does_not_undo_its_write,
            guarantees: a_thousand_writers_lose_nothing,
        }
    };
    ($open:path => $($module:ident: $test:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let (store, _kept) = $open();
                $crate::store_contract::$module::$test(store).await;
            }
        )*
    };
}
