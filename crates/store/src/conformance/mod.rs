//! The conformance suite: the tests that every store must pass.
//!
//! A new guarantee is a new function here and a line in [`conformance!`]; a function without its
//! line is dead code and stops the build. A store joins with a function that opens an empty
//! [`Fixture`].

pub(crate) mod audit;
pub(crate) mod batches;
pub(crate) mod cancels;
pub(crate) mod children;
pub(crate) mod claims;
pub(crate) mod counters;
pub(crate) mod credentials;
pub(crate) mod fixture;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod leases;
pub(crate) mod limits;
pub(crate) mod listings;
pub(crate) mod lists;
pub(crate) mod maintenance;
pub(crate) mod nodes;
pub(crate) mod operators;
pub(crate) mod outbox;
pub(crate) mod races;
pub(crate) mod records;
pub(crate) mod settles;
pub(crate) mod steps;
pub(crate) mod submits;
pub(crate) mod tenants;

pub(crate) use fixture::{Fixture, OpenStore};
pub(crate) use nodes::ClusterFixture;

/// Runs every test of the suite on the stores that `$open` returns.
macro_rules! conformance {
    ($open:path) => {
        conformance! { $open;
            audit: audited_commands_are_recorded_in_a_hash_chain, refused_commands_leave_no_audit_entry,
                a_recorded_request_has_its_own_turn_and_reply, a_record_of_a_record_is_two_entries,
                a_tenant_reads_only_its_own_audit_entries, the_audit_log_is_read_in_pages,
                the_chain_goes_on_after_a_restart_and_a_restore;
            batches: a_batch_answers_in_the_order_of_its_requests, a_job_is_stored_and_started_by_one_batch,
                two_commands_on_one_job_see_each_other, a_policy_counts_for_the_submits_beside_it,
                an_empty_batch_returns_no_replies,
                odd_numbers_are_survived;
            cancels: a_waiting_job_is_cancelled_at_once, cancelling_a_running_job_asks_its_worker_to_stop,
                a_cancelled_job_never_runs_again, a_cancel_and_a_settle_race_to_one_outcome;
            children: a_parent_waits_until_its_last_child_has_ended, a_sweep_finds_a_parent_whose_children_have_ended,
                a_foreign_child_makes_no_parent_wait, a_waiting_parent_is_cancelled_and_expires_like_a_queued_job;
            maintenance: overdue_jobs_are_read_in_pages, an_expired_job_is_found_and_cancelled,
                the_store_reports_when_the_next_job_is_due, a_silent_worker_is_found, a_slow_handler_is_found, no_job_is_overdue_before_its_time,
                an_old_job_is_purged_with_all_that_is_its, a_poisoned_job_waits_for_a_person,
                a_keyed_job_is_kept_as_long_as_its_key, old_rows_go_in_bounded_numbers,
                an_overdue_job_that_settled_meanwhile_stays_as_it_is;
            claims: a_claim_of_another_principal_is_another_claim, priority_goes_before_due_time, only_due_jobs_are_given, an_expired_job_does_not_block_the_line,
                queues_are_served_in_turn, one_job_is_not_starved_by_a_hundred_thousand,
                workers_of_different_types_do_not_starve_a_queue, a_claim_takes_only_its_types,
                claims_of_one_batch_share_no_job,
                a_repeated_claim_gets_the_same_leases, a_repeated_claim_without_leases_is_a_new_one,
                a_claim_under_an_old_name_is_remembered_from_when_it_was_given_jobs,
                a_repeated_claim_returns_only_jobs_of_its_types,
                a_claim_brings_the_payload, a_claim_gets_the_lease_length_it_requests, a_claim_is_never_larger_than_its_bound,
                a_claim_ends_when_its_payloads_are_large_enough;
            counters: every_state_is_counted, the_store_reports_queue_depth_and_oldest_due_job, a_discarded_job_leaves_the_poison_queue,
                poison_is_counted_by_type_and_code, the_codes_of_the_poison_queue_are_bounded,
                a_tenant_lists_only_its_own_queues;
            credentials: keys_are_kept_oldest_first, a_tenant_lists_only_its_own_keys, a_key_that_is_put_again_is_replaced,
                signing_keys_are_kept_and_replaced;
            history: every_transition_is_written_once, history_can_be_read_from_a_row_on, a_heartbeat_writes_no_history;
            keys: the_same_key_means_the_same_job, another_job_under_a_key_is_refused,
                a_key_lives_a_window_longer_than_its_job, an_expired_key_is_free_swept_or_not,
                a_redriven_job_takes_its_key_back, a_redriven_job_does_not_take_a_key_from_another,
                a_key_yields_after_a_dead_end_and_to_no_other_job,
                keys_of_other_types_and_tenants_are_other_keys, an_erased_job_frees_its_key,
                a_list_is_taken_whole_or_not_at_all, a_key_twice_in_one_list_means_one_job;
            leases: a_heartbeat_extends, a_stale_token_changes_nothing, the_fence_only_grows,
                a_jump_of_the_clock_costs_no_lease, the_clock_never_goes_back,
                a_restart_voids_no_lease,
                time_with_worker_contact_is_not_an_outage, a_restore_voids_every_lease, an_undelivered_claim_costs_no_attempt;
            limits: undeclared_types_of_a_tenant_are_bounded, a_list_with_one_type_too_many_opens_none,
                declared_types_do_not_count, paused_types_of_a_tenant_are_bounded, keys_of_a_tenant_are_bounded,
                an_ended_key_makes_room, the_maker_of_a_kept_key_is_kept, workers_of_a_tenant_are_bounded,
                a_lost_worker_makes_room, a_worker_signs_off_where_there_is_no_room;
            listings: pages_are_newest_first_and_complete, every_filter_field_filters, a_filter_by_tenant_shows_what_that_tenant_sees,
                filters_combine, a_page_is_never_longer_than_its_bound,
                a_page_goes_on_when_its_last_job_is_erased;
            lists: a_job_that_ends_and_begins_again_within_a_list_is_written_anew,
                a_request_list_with_a_refused_part_changes_nothing, a_part_sees_what_the_parts_before_it_do,
                keys_change_hands_within_a_list, a_key_of_another_job_is_not_freed_by_a_list,
                a_request_list_submits_a_job_once, lists_of_one_batch_share_a_bounded_queue,
                a_list_declares_a_type_before_its_first_job, an_attempt_ends_once_within_a_list,
                steps_are_seen_within_a_list, a_bounded_queue_is_counted_within_a_list,
                types_are_counted_within_a_list, a_list_has_the_turn_of_its_last_part,
                lists_within_lists_are_one_list;
            nodes: a_single_node_leads, the_store_reads_versions_of_many_jobs_at_once;
            operators: a_paused_queue_is_not_claimed_from, the_store_lists_every_pause, a_pause_tells_who_made_it_and_why_and_since_when, a_pause_of_all_tenants_holds_for_each_tenant,
                policies_are_kept_and_used, schemas_and_ready_made_handlers_are_kept, a_redrive_is_a_new_life,
                a_redrive_may_correct_the_payload, a_full_queue_takes_no_more,
                explain_facts_show_why_a_job_waits, workers_are_seen, a_worker_that_signs_off_is_gone_at_once,
                a_worker_that_signs_off_keeps_its_leases, an_erased_job_leaves_no_personal_data;
            outbox: every_transition_is_announced_once_in_order, numbers_have_no_gaps_and_do_not_change,
                old_announcements_go_and_numbers_go_on, a_job_s_announcements_are_read_from_a_row_on,
                old_announcements_of_a_job_are_left_out, an_erased_job_has_no_outbox_events;
            races: many_racers_with_one_key_make_one_job, many_racers_after_a_dead_end_make_one_new_job,
                many_workers_never_share_a_job,
                a_settle_and_a_sweep_race_to_one_outcome, one_claim_id_at_once_gives_one_set_of_leases,
                one_claim_id_at_once_shares_what_there_is;
            records: a_record_is_kept_with_its_version, a_record_of_another_version_is_not_changed,
                records_are_listed_by_kind_scope_and_prefix, a_removed_record_begins_anew;
            settles: an_attempt_completes, a_failure_is_tried_again_and_then_poisons,
                a_repeated_settle_is_answered_as_the_first_time, another_ending_is_refused,
                a_repeat_within_one_batch_is_a_repeat, a_release_gives_the_attempt_back;
            steps: a_step_completes_once, steps_survive_attempts_and_redrives, steps_can_be_forgotten, steps_are_bounded;
            submits: a_job_is_there_when_it_was_answered, a_submitted_job_keeps_every_field, the_same_hand_over_again_is_the_same_job,
                a_job_never_submitted_is_not_found;
            tenants: a_tenant_cannot_see_jobs_of_another, a_tenant_cannot_change_jobs_of_another, workers_take_only_what_is_theirs,
                workers_of_one_name_are_not_mixed_up;
        }
    };
    ($open:path; $($topic:ident: $($promise:ident),+;)+) => {
        $(mod $topic {
            $(#[test]
            fn $promise() {
                crate::conformance::$topic::$promise(&$open());
            })+
        })+
    };
}
pub(crate) use conformance;

/// Runs the tests about several nodes on the stores that `$open` returns as [`ClusterFixture`]. For
/// stores that more than one process may open.
macro_rules! conformance_shared {
    ($open:path) => {
        conformance_shared! { $open;
            one_node_leads_at_a_time, a_silent_leader_is_followed_after_its_time_and_not_before,
            a_leader_that_comes_back_late_does_no_maintenance, a_leader_that_was_away_does_no_chores_unfollowed,
            a_draining_node_gives_the_lead_up, a_draining_node_does_not_lead,
            a_node_that_never_sent_a_heartbeat_may_number_events, the_node_list_shows_each_node_as_last_seen,
            nodes_that_are_long_gone_are_forgotten, all_other_nodes_receive_a_notification, a_batch_sends_its_notification,
            notifications_that_wait_are_merged, a_change_at_one_node_is_visible_at_another,
            a_report_at_one_node_knows_what_happened_at_another,
            a_lease_that_another_node_gave_counts_everywhere,
            everything_that_is_set_is_counted, a_node_confirms_what_it_acts_by,
            silent_nodes_are_not_waited_for
        }
    };
    ($open:path; $($promise:ident),+) => {
        mod shared {
            $(#[test]
            fn $promise() {
                crate::conformance::nodes::$promise(&$open());
            })+
        }
    };
}
pub(crate) use conformance_shared;
