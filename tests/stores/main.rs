//! Every engine of the history keeps the same promises: one suite of tests for SQLite and PostgreSQL, and what holds for
//! PostgreSQL alone, which many processes share.

#[path = "../common/mod.rs"]
mod common;
mod comparing;
mod kept;
mod points;
mod runs;
mod shared;
mod unscored;

/// Each case as a test of each engine.
macro_rules! stores {
    ($($file:ident: $($case:ident)+;)+) => {
        mod sqlite {
            use conceptwatch::history::{Limits, Sqlite};

            $($(#[test]
            fn $case() {
                super::$file::$case(&Sqlite::open(None, Limits { bytes: 1 << 30 }).unwrap());
            })+)+
        }

        mod postgres {
            use conceptwatch::history::Postgres;

            $($(#[test]
            fn $case() {
                if let Some(url) = super::common::postgres::database() {
                    super::$file::$case(&Postgres::open(&url).unwrap());
                }
            })+)+
        }
    };
}

stores! {
    points: a_point_is_read_back_to_the_bit
        evaluations_are_the_newest_finished_points_without_matrices
        evaluation_times_are_those_of_the_newest_of_each_split
        common_steps_are_those_that_both_splits_have_finished
        a_step_passed_again_replaces_its_point
        a_series_is_ordered_and_bounded_by_steps
        numbers_that_are_not_finite_are_absent
        a_point_of_the_wrong_shape_leaves_the_old_one_whole
        a_matrix_of_112_concepts_is_read_back_exactly
        a_complete_point_is_never_replaced_by_a_lesser_one_whatever_the_order
        a_complete_point_is_that_of_the_attempt_that_made_it
        points_beyond_the_step_that_a_later_attempt_returned_to_are_superseded
        of_evaluations_of_one_step_the_newest_is_current
        conclusions_rest_on_the_newest_branch_alone
        a_point_whose_attempt_is_unknown_belongs_to_the_branch_of_its_time
        whole_points_come_in_order_and_in_parts;
    comparing: briefs_are_those_of_the_evaluations
        values_of_many_runs_are_those_of_their_series
        runs_are_known_by_their_labels;
    runs: a_name_belongs_to_the_job_that_declared_it
        a_run_ends_as_its_ranks_do_until_it_goes_on
        the_outcome_of_ranks_without_a_job_is_that_of_the_run
        titles_and_notes_are_kept_until_they_are_taken_away
        a_run_is_removed_whole_unless_it_is_open
        a_declaration_does_not_change
        hostile_names_are_data
        three_thousand_runs_are_listed_in_pages_counted_and_searched
        splits_are_listed_with_their_run;
    unscored: what_was_not_scored_is_recorded_until_it_has_a_point
        records_of_passes_without_points_are_bounded_for_each_run;
}

/// A hub is told by the sidecar which restart a rank belongs to.
#[test]
fn processes_tell_the_restarts_of_a_launch_apart() {
    use conceptwatch::history::{Limits, Sqlite};
    runs::processes_tell_the_restarts_of_a_launch_apart(&Sqlite::open(None, Limits { bytes: 1 << 30 }).unwrap());
}
