//! Properties of the schedule: it stays within its CPU share, serves every run, loses no pass, and builds up no queue of
//! live passes that come faster than they are scored.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::{Budget, Closed, Job, Room, Schedule, Skipped, SplitKey, Ticks, Why};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn key(run: &str, split: &str) -> SplitKey {
    SplitKey::new(run, split)
}

fn budget(cpu_share: f64, burst: Duration) -> Budget {
    Budget { cpu_share, busy_cpu_share: cpu_share, burst }
}

fn generous() -> Budget {
    budget(1.0, ms(1_000_000))
}

fn ticks() -> Ticks {
    Ticks { interval: ms(1000), least_changed: 0.1 }
}

/// External events, at most one per millisecond.
#[derive(Clone, Debug)]
enum Event {
    Closed { run: u8, split: u8, backlog: bool },
    Changed { run: u8, changed: usize },
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        (0u8..4, 0u8..3, prop::bool::weighted(0.2)).prop_map(|(run, split, backlog)| Event::Closed {
            run,
            split,
            backlog
        }),
        (0u8..4, 0usize..100).prop_map(|(run, changed)| Event::Changed { run, changed }),
    ];
    prop::collection::vec((1u64..400, event), 1..150)
}

/// One job as it ran.
#[derive(Clone, Debug)]
struct Ran {
    key: SplitKey,
    pass: Option<usize>,
    start: Duration,
    cpu: Duration,
}

/// Simulates a worker whose jobs take `cpu` of CPU and wall time, until nothing waits. Returns the jobs, and the passes
/// that were skipped.
fn play(schedule: &mut Schedule<usize>, events: &[(u64, Event)], cpu: &[u64]) -> (Vec<Ran>, Vec<Skipped<usize>>) {
    let mut events: VecDeque<(Duration, Event)> = events
        .iter()
        .scan(0, |at, (wait, event)| {
            *at += wait;
            Some((ms(*at), event.clone()))
        })
        .collect();
    let (mut ran, mut skipped, mut passes) = (Vec::<Ran>::new(), Vec::new(), 0);
    let mut running_until: Option<Duration> = None;
    loop {
        let next_event = events.front().map(|(at, _)| *at);
        let next_start = schedule.next_start();
        let Some(now) = [next_event, running_until, next_start].into_iter().flatten().min() else { break };
        let now = now.max(ran.last().map_or(Duration::ZERO, |job| job.start));
        if running_until.is_some_and(|until| until <= now) {
            running_until = None;
            schedule.finished(ran.last().unwrap().cpu, now);
        } else if next_event.is_some_and(|at| at <= now) {
            match events.pop_front().unwrap().1 {
                Event::Closed { run, split, backlog } => {
                    let key = key(&format!("run{run}"), &format!("val{split}"));
                    let closed = Closed { backlog, bytes: 10, ..Closed::live(passes) };
                    skipped.extend(schedule.pass_closed(key, closed, now));
                    passes += 1;
                }
                Event::Changed { run, changed } => {
                    schedule.rows_changed(&key(&format!("run{run}"), "train"), changed, 100, now);
                }
            }
        }
        if let Some(job) = schedule.start(now) {
            assert!(running_until.is_none(), "two jobs in flight");
            let cpu = ms(cpu[ran.len() % cpu.len()]);
            let pass = if let Job::Pass(_, pass) = &job { Some(*pass) } else { None };
            ran.push(Ran { key: job.key().clone(), pass, start: now, cpu });
            running_until = Some(now + cpu);
            assert!(schedule.start(now).is_none() && schedule.next_start().is_none(), "one job in flight at a time");
        }
    }
    (ran, skipped)
}

proptest! {
    #[test]
    fn scoring_keeps_within_its_share_of_cpu(
        events in events(), cpu in prop::collection::vec(1u64..3000, 1..10), share in 0.01f64..0.9, burst in 0u64..2000,
    ) {
        let budget = budget(share, ms(burst));
        let (ran, _) = play(&mut Schedule::new(ticks(), budget, Room::default(), Duration::ZERO), &events, &cpu);
        // Over every period from the start of one job to the start of a later one.
        for (first, from) in ran.iter().enumerate() {
            let mut used = 0.0;
            let mut longest = std::collections::BTreeMap::new();
            for (job, next) in ran[first..].iter().zip(&ran[first + 1..]) {
                used += job.cpu.as_secs_f64();
                let of_run: &mut Duration = longest.entry(&job.key.run).or_default();
                *of_run = job.cpu.max(*of_run);
                let one_each: Duration = longest.values().sum();
                let stretch = (next.start - from.start).as_secs_f64();
                let most = share * (stretch + budget.burst.as_secs_f64()) + one_each.as_secs_f64();
                prop_assert!(used <= most + 1e-6, "{} CPU s in {} s", used, stretch);
            }
        }
    }

    #[test]
    fn every_closed_pass_is_started_once_or_returned_as_skipped(
        events in events(), cpu in prop::collection::vec(1u64..3000, 1..10), share in 0.05f64..0.9,
        live in 1usize..8, backlog in 1usize..8, bytes in 0usize..200,
    ) {
        let room = Room { live, backlog, bytes };
        let mut schedule = Schedule::new(ticks(), budget(share, ms(500)), room, Duration::ZERO);
        let (ran, skipped) = play(&mut schedule, &events, &cpu);
        let closed = events.iter().filter_map(|(_, event)| match event {
            Event::Closed { run, split, backlog } => Some((key(&format!("run{run}"), &format!("val{split}")), *backlog)),
            Event::Changed { .. } => None,
        });
        let closed: Vec<_> = closed.collect();
        let scored: Vec<usize> = ran.iter().filter_map(|job| job.pass).collect();
        let mut all: Vec<usize> = scored.iter().copied().chain(skipped.iter().map(|skipped| skipped.pass)).collect();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..closed.len()));
        prop_assert_eq!(schedule.replaced().passes, skipped.len() as u64);
        for Skipped { pass, why } in skipped {
            prop_assert_eq!(why == Why::Backlog, closed[pass].1, "a backlog pass is not skipped for a newer one");
        }
        // The passes of a split are scored oldest first, and the newest live one is scored.
        let splits: std::collections::BTreeSet<_> = closed.iter().map(|(key, _)| key.clone()).collect();
        for split in splits {
            let of_split: Vec<_> = ran.iter().filter(|job| job.key == split).filter_map(|job| job.pass).collect();
            prop_assert!(of_split.is_sorted(), "{:?}", of_split);
            let newest = closed.iter().rposition(|(key, backlog)| *key == split && !backlog);
            prop_assert!(newest.is_none_or(|newest| of_split.contains(&newest)));
        }
        prop_assert_eq!((schedule.lag(ms(10_000_000)), schedule.bytes()), (Duration::ZERO, 0), "nothing waits at the end");
    }

    #[test]
    fn live_passes_that_do_not_outrun_scoring_are_all_scored_whatever_their_bursts(
        bursts in prop::collection::vec((1usize..5, 100u64..3000), 1..40), backlog in 0usize..30,
    ) {
        // Each job takes 20 ms, and after a burst of up to four passes there are 100 ms or more for each of them.
        let closed = |backlog| Event::Closed { run: 0, split: 0, backlog };
        let mut events: Vec<(u64, Event)> = (0..backlog).map(|_| (1, closed(true))).collect();
        for (passes, pause) in bursts {
            // Within a burst passes come as fast as 25 ms after each other.
            events.extend((0..passes).map(|at| (if at == 0 { pause * passes as u64 } else { 25 }, closed(false))));
        }
        let (ran, skipped) = play(&mut Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO), &events, &[20]);
        prop_assert_eq!((ran.len(), skipped), (events.len(), vec![]));
    }

    #[test]
    fn the_line_of_live_passes_that_outrun_scoring_stays_short(cpu in 50u64..500, gap in 1u64..40) {
        let events: Vec<_> = (0..200).map(|_| (gap, Event::Closed { run: 0, split: 0, backlog: false })).collect();
        let mut schedule = Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO);
        let (ran, skipped) = play(&mut schedule, &events, &[cpu]);
        // Those of the first gaps may have been a burst; then one waits at a time.
        let most = 8 + 200 * gap / cpu;
        prop_assert!(ran.len() as u64 <= most, "{} of at most {} are scored", ran.len(), most);
        prop_assert!(skipped.iter().all(|skipped| skipped.why == Why::Outrun));
    }

    #[test]
    fn ticks_of_a_split_are_an_interval_apart(events in events(), cpu in prop::collection::vec(1u64..3000, 1..10)) {
        let (ran, _) = play(&mut Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO), &events, &cpu);
        for run in ["run0", "run1", "run2", "run3"] {
            let starts: Vec<_> = ran.iter().filter(|job| job.key == key(run, "train")).map(|job| job.start).collect();
            prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= ms(1000)));
        }
    }

    #[test]
    fn no_run_waits_longer_than_one_job_of_every_other(
        busy in prop::collection::vec((0u8..5, 0u8..6), 1..60), cpu in 1u64..50,
    ) {
        // Every split closes its next pass as soon as one starts, so that the worker always has work.
        let mut schedule = Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO);
        let name = |(run, split): (u8, u8)| key(&format!("run{run}"), &format!("val{split}"));
        let mut now = ms(1);
        for &split in &busy {
            schedule.pass_closed(name(split), Closed::live(0), now);
            now += ms(1);
        }
        let runs: std::collections::BTreeSet<u8> = busy.iter().map(|(run, _)| *run).collect();
        let mut order = Vec::new();
        for _ in 0..(runs.len() * 8) {
            let job = schedule.start(now).expect("work is waiting");
            order.push(job.key().run.to_string());
            schedule.pass_closed(job.key().clone(), Closed::live(0), now);
            now += ms(cpu);
            schedule.finished(ms(cpu), now);
        }
        for window in order.windows(runs.len()) {
            let served: std::collections::BTreeSet<_> = window.iter().collect();
            prop_assert_eq!(served.len(), runs.len(), "each run once in {:?}", window);
        }
    }
}

#[test]
fn without_room_a_later_pass_replaces_one_that_has_not_started_and_keeps_its_turn() {
    let mut schedule = Schedule::new(ticks(), generous(), Room::NEWEST, Duration::ZERO);
    assert_eq!(schedule.pass_closed(key("a", "val"), Closed::live(1), ms(10)), None);
    schedule.pass_closed(key("b", "val"), Closed::live(2), ms(20));
    assert_eq!(
        schedule.pass_closed(key("a", "val"), Closed::live(3), ms(30)),
        Some(Skipped { pass: 1, why: Why::Full })
    );
    assert_eq!((schedule.replaced().passes, schedule.lag(ms(50))), (1, ms(40)));
    assert_eq!(schedule.start(ms(50)), Some(Job::Pass(key("a", "val"), 3)));
    // A pass that has started is not replaced: the next one waits.
    assert_eq!(schedule.pass_closed(key("a", "val"), Closed::live(4), ms(60)), None);
    schedule.finished(ms(10), ms(70));
    assert_eq!(schedule.start(ms(70)), Some(Job::Pass(key("b", "val"), 2)));
    schedule.finished(ms(10), ms(80));
    assert_eq!(schedule.start(ms(80)), Some(Job::Pass(key("a", "val"), 4)));
    assert_eq!((schedule.replaced().passes, schedule.lag(ms(90))), (1, ms(0)));
}

#[test]
fn rolling_splits_are_due_when_enough_changed_and_the_interval_is_over() {
    let mut schedule: Schedule<()> = Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO);
    let train = key("run", "train");
    schedule.rows_changed(&train, 0, 100, ms(0));
    assert_eq!((schedule.next_start(), schedule.start(ms(5000))), (None, None), "nothing changed, nothing due");
    schedule.rows_changed(&train, 9, 100, ms(6000));
    assert_eq!(schedule.start(ms(6000)), None, "9 of 100 are too few");
    schedule.rows_changed(&train, 10, 100, ms(6100));
    schedule.rows_changed(&train, 12, 100, ms(6200));
    assert_eq!((schedule.next_start(), schedule.lag(ms(6300))), (Some(ms(6100)), ms(200)));
    assert_eq!(schedule.start(ms(6300)), Some(Job::Tick(train.clone())));
    schedule.rows_changed(&train, 50, 100, ms(6400));
    schedule.finished(ms(10), ms(6500));
    assert_eq!((schedule.start(ms(7299)), schedule.next_start()), (None, Some(ms(7300))));
    // Three intervals late: one job, and the ticks between are counted.
    assert_eq!(schedule.start(ms(10_400)), Some(Job::Tick(train.clone())));
    assert_eq!(schedule.replaced().ticks, 3);
    schedule.finished(ms(10), ms(10_500));
    assert_eq!(schedule.next_start(), None);
}

#[test]
fn without_rows_nothing_is_due_even_if_no_change_is_required() {
    let always = Ticks { least_changed: 0.0, ..ticks() };
    let mut schedule: Schedule<()> = Schedule::new(always, generous(), Room::default(), Duration::ZERO);
    schedule.rows_changed(&key("run", "train"), 0, 0, ms(0));
    schedule.rows_changed(&key("run", "train"), 0, 500, ms(10));
    assert_eq!(schedule.next_start(), None);
}

#[test]
fn short_jobs_after_an_idle_time_run_at_once_until_the_burst_is_spent() {
    let budget = budget(0.1, ms(1000));
    let mut schedule = Schedule::new(ticks(), budget, Room::default(), Duration::ZERO);
    let mut now = ms(1_000_000);
    let mut waits = Vec::new();
    for pass in 0..6 {
        schedule.pass_closed(key("run", "val"), Closed::live(pass), now);
        let start = schedule.next_start().unwrap().max(now);
        assert!(start == now || schedule.start(start - Duration::from_nanos(2000)).is_none());
        waits.push((start - now).as_millis());
        assert!(schedule.start(start + Duration::from_nanos(1)).is_some());
        now = start + ms(40);
        schedule.finished(ms(40), now);
    }
    // 100 ms are saved up; each job takes 40 ms while 4 ms are earned (none above 100): 60, 24, −12, which takes 120 ms
    // to pay. Every later job leaves −36 ms, which takes 360 ms.
    assert_eq!(waits[..3], [0, 0, 0]);
    assert!(waits[3].abs_diff(120) <= 1 && waits[4].abs_diff(360) <= 1 && waits[5].abs_diff(360) <= 1, "{waits:?}");
}

#[test]
fn a_busy_machine_shrinks_the_share_and_an_idle_one_restores_it() {
    let budget = Budget { cpu_share: 0.5, busy_cpu_share: 0.05, burst: Duration::ZERO };
    let mut schedule = Schedule::new(ticks(), budget, Room::default(), Duration::ZERO);
    let mut now = ms(0);
    let mut waits = Vec::new();
    // Unknown; no idle core; a tenth of a core; more than the share.
    for spare in [None, Some(0.0), Some(0.1), Some(7.5)] {
        schedule.pass_closed(key("run", "val"), Closed::live(0), now);
        let start = schedule.next_start().unwrap().max(now);
        assert!(schedule.start(start).is_some());
        schedule.finished(ms(100), start);
        if let Some(cores) = spare {
            schedule.spare(cores, start);
        }
        schedule.pass_closed(key("run", "val"), Closed::live(0), start);
        waits.push((schedule.next_start().unwrap() - start).as_millis());
        now = start;
    }
    for (wait, expected) in waits.iter().zip([200, 2000, 1000, 200]) {
        assert!(wait.abs_diff(expected) <= 1, "{waits:?}");
    }
    // Credit earned before the share changes is kept: half of the debt of 100 ms is paid after 100 ms.
    schedule.spare(0.0, now + ms(100));
    assert!((schedule.next_start().unwrap() - now).as_millis().abs_diff(1100) <= 1);
}

#[test]
fn on_a_busy_machine_less_is_saved_up() {
    let budget = Budget { cpu_share: 0.5, busy_cpu_share: 0.05, burst: ms(4000) };
    let mut schedule = Schedule::new(ticks(), budget, Room::default(), Duration::ZERO);
    schedule.spare(0.0, ms(0));
    let later = ms(1_000_000);
    schedule.pass_closed(key("run", "val"), Closed::live(0), later);
    assert!(schedule.start(later).is_some());
    schedule.finished(ms(300), later);
    schedule.pass_closed(key("run", "val"), Closed::live(1), later);
    // 4 s of 0.05 of a core are saved up, not of 0.5: 100 ms are owed.
    assert!((schedule.next_start().unwrap() - later).as_millis().abs_diff(2000) <= 1);
}

#[test]
fn time_charged_while_a_job_runs_is_not_charged_again_at_its_end() {
    let mut schedule = Schedule::new(ticks(), budget(0.1, Duration::ZERO), Room::default(), Duration::ZERO);
    schedule.pass_closed(key("run", "val"), Closed::live(0), ms(0));
    assert!(schedule.start(ms(0)).is_some());
    // 10 ms every 100 ms: the share pays for it, and only the remainder is owed at the end.
    for slice in 1..=20 {
        schedule.charge(ms(10), ms(100 * slice));
    }
    schedule.finished(ms(5), ms(2000));
    schedule.pass_closed(key("run", "val"), Closed::live(1), ms(2000));
    assert!(schedule.next_start().unwrap().abs_diff(ms(2000 + 100 + 50)) <= ms(1));
}

#[test]
fn a_job_in_flight_uses_idle_cores() {
    let budget = Budget { cpu_share: 0.5, busy_cpu_share: 0.05, burst: Duration::ZERO };
    let mut schedule: Schedule<()> = Schedule::new(ticks(), budget, Room::default(), Duration::ZERO);
    assert!(schedule.pace() >= 256.0, "idle cores are unknown");
    for (idle, pace) in [(0.0, 0.05), (0.3, 0.3), (7.5, 7.5)] {
        schedule.spare(idle, ms(1));
        assert_eq!(schedule.pace(), pace);
    }
}

#[test]
fn clients_hold_passes_back_only_where_these_outrun_scoring() {
    let mut schedule = Schedule::new(ticks(), budget(0.1, Duration::ZERO), Room::default(), Duration::ZERO);
    let (val, test) = (key("run", "val"), key("run", "test"));
    schedule.pass_closed(val.clone(), Closed::live(0), ms(0));
    assert!(schedule.start(ms(0)).is_some());
    for pass in 1..=4 {
        assert_eq!(schedule.pass_closed(val.clone(), Closed::live(pass), ms(10 * pass)), None);
        assert_eq!(schedule.wait(&val, ms(10 * pass)), ms(0), "a few may be a burst");
    }
    let replaced = schedule.pass_closed(val.clone(), Closed::live(5), ms(50));
    assert_eq!(replaced, Some(Skipped { pass: 4, why: Why::Outrun }));
    assert_eq!(schedule.wait(&val, ms(50)), ms(50), "the job in flight has taken as long");
    assert_eq!(schedule.wait(&test, ms(50)), ms(0), "nothing of it waits");
    schedule.finished(ms(50), ms(60));
    // 50 ms at a tenth of a core, 6 of which were earned meanwhile.
    assert!(schedule.wait(&val, ms(60)).abs_diff(ms(500)) <= ms(61));
    // Passes that the client held back count as arrivals, so it keeps holding back.
    let held = Closed { held_back: 9, ..Closed::live(6) };
    assert!(schedule.pass_closed(val.clone(), held, ms(500)).is_some());
    for pass in 7..20 {
        let skipped = schedule.pass_closed(val.clone(), Closed { held_back: 9, ..Closed::live(pass) }, ms(500 * pass));
        assert_eq!(skipped.map(|skipped| skipped.why), Some(Why::Outrun));
    }
}

#[test]
fn a_stopping_server_scores_what_waits_without_rests_and_takes_the_remainder() {
    let mut schedule = Schedule::new(ticks(), budget(0.01, Duration::ZERO), Room::default(), Duration::ZERO);
    let closed = |pass, bytes| Closed { backlog: true, bytes, ..Closed::live(pass) };
    for pass in 0..4 {
        schedule.pass_closed(key("run", "val"), closed(pass, 100), ms(0));
    }
    schedule.rows_changed(&key("run", "train"), 5, 5, ms(0));
    assert!(schedule.start(ms(1)).is_some());
    schedule.finished(ms(1000), ms(1000));
    assert_eq!(schedule.start(ms(1000)), None, "the CPU share is used up");
    schedule.hurry();
    assert_eq!(schedule.start(ms(1000)), Some(Job::Pass(key("run", "val"), 1)));
    assert_eq!(schedule.bytes(), 300);
    schedule.finished(ms(1000), ms(2000));
    assert_eq!((schedule.take_all(), schedule.bytes()), (vec![2, 3], 0));
    assert_eq!(schedule.start(ms(100_000)), None, "rolling windows have their snapshot");
}

fn of_cost(pass: usize, expected: Duration) -> Closed<usize> {
    Closed { expected, ..Closed::live(pass) }
}

#[test]
fn the_shortest_job_goes_first_until_a_longer_one_has_waited_long_for_its_length() {
    let mut schedule = Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO);
    schedule.pass_closed(key("wide", "val"), of_cost(1, ms(1000)), ms(0));
    schedule.pass_closed(key("small", "val"), of_cost(2, ms(10)), ms(500));
    assert_eq!(schedule.start(ms(520)), Some(Job::Pass(key("small", "val"), 2)));
    schedule.finished(ms(10), ms(530));
    schedule.pass_closed(key("small", "val"), of_cost(3, ms(10)), ms(2000));
    // The long one has waited for twice its length, the short one not yet.
    assert_eq!(schedule.start(ms(2010)), Some(Job::Pass(key("wide", "val"), 1)));
}

#[test]
fn what_the_last_job_of_a_split_took_corrects_what_its_shape_promises() {
    let mut schedule = Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO);
    for (at, run, took) in [(0, "a", 1000), (2000, "b", 1)] {
        schedule.pass_closed(key(run, "val"), of_cost(0, ms(10)), ms(at));
        assert!(schedule.start(ms(at)).is_some());
        schedule.finished(ms(took), ms(at + 1000));
    }
    schedule.pass_closed(key("a", "val"), of_cost(1, ms(10)), ms(4000));
    schedule.pass_closed(key("b", "val"), of_cost(2, ms(20)), ms(4100));
    assert_eq!(schedule.start(ms(4200)), Some(Job::Pass(key("b", "val"), 2)));
}

#[test]
fn a_long_job_gives_way_to_much_shorter_ones_of_other_splits() {
    let mut schedule = Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO);
    schedule.pass_closed(key("wide", "val"), of_cost(0, ms(1000)), ms(0));
    assert!(schedule.start(ms(0)).is_some());
    schedule.pass_closed(key("wide", "val"), of_cost(1, ms(10)), ms(10));
    schedule.pass_closed(key("other", "val"), of_cost(2, ms(260)), ms(10));
    assert_eq!(
        schedule.start_shorter(ms(20)),
        None,
        "passes of a split stay in order, and a third is not much shorter"
    );
    schedule.pass_closed(key("small", "val"), of_cost(3, ms(250)), ms(30));
    assert_eq!(schedule.start_shorter(ms(300)), Some(Job::Pass(key("small", "val"), 3)));
    schedule.pass_closed(key("tiny", "val"), of_cost(4, ms(5)), ms(310));
    assert_eq!(schedule.start_shorter(ms(320)), Some(Job::Pass(key("tiny", "val"), 4)));
    schedule.charge(ms(5), ms(325));
    assert_eq!(schedule.spent(), ms(5), "of the innermost");
    assert_eq!((schedule.start(ms(330)), schedule.next_start()), (None, None));
    for at in [340, 350] {
        schedule.finished(ms(1), ms(at));
    }
    schedule.charge(ms(400), ms(400));
    assert_eq!(schedule.spent(), ms(400), "the long one goes on");
    schedule.finished(ms(600), ms(1000));
    assert!(schedule.start(ms(1001)).is_some());
}

#[test]
fn a_short_job_waits_until_its_own_time_is_paid_and_not_that_of_another_run() {
    let mut schedule = Schedule::new(ticks(), budget(0.1, Duration::ZERO), Room::default(), Duration::ZERO);
    schedule.pass_closed(key("wide", "val"), of_cost(0, ms(10_000)), ms(0));
    assert!(schedule.start(ms(0)).is_some());
    schedule.finished(ms(10_000), ms(10_000));
    schedule.pass_closed(key("wide", "val"), of_cost(1, ms(10_000)), ms(10_000));
    schedule.pass_closed(key("small", "val"), of_cost(2, ms(10)), ms(10_000));
    // Half of the share, as another run waits, pays 10 ms in 200 ms. What was not expected waits for the debt.
    schedule.pass_closed(key("unknown", "val"), Closed::live(3), ms(10_000));
    assert_eq!(schedule.start(ms(10_299)), None);
    assert_eq!(schedule.next_start(), Some(ms(10_300)), "a third, with two others");
    assert_eq!(schedule.start(ms(10_300)), Some(Job::Pass(key("small", "val"), 2)));
    schedule.finished(ms(10), ms(10_310));
    assert!(schedule.next_start().unwrap() > ms(90_000), "the debt of the long one is still paid");
    schedule.bill(ms(1000), ms(10_310));
    assert!(schedule.next_start().unwrap() > ms(100_000), "and what others took");
}

proptest! {
    #[test]
    fn small_evaluations_beside_any_wide_one_take_twice_their_own_time_and_a_second_at_most(
        wide in 100u64..200_000, small in 1u64..40, gap in 500u64..3000, share in 0.15f64..0.9,
    ) {
        let mut schedule = Schedule::new(ticks(), budget(share, ms(4000)), Room::default(), Duration::ZERO);
        let slice = ms(5);
        // What is left of each job in flight.
        let mut stack: Vec<(Option<Duration>, Duration)> = Vec::new();
        let (mut now, mut next_small, mut delays) = (Duration::ZERO, ms(gap), Vec::new());
        schedule.pass_closed(key("wide", "val"), of_cost(0, ms(wide)), now);
        while delays.len() < 60 {
            if next_small <= now {
                let closed = Closed { pass: now.as_millis() as usize, ..of_cost(0, ms(small)) };
                prop_assert_eq!(schedule.pass_closed(key("small", "val"), closed, now), None);
                next_small += ms(gap);
            }
            let job = if stack.is_empty() { schedule.start(now) } else { schedule.start_shorter(now) };
            match job {
                Some(Job::Pass(key, closed)) if &*key.run == "small" => {
                    stack.push((Some(ms(closed as u64)), ms(small)));
                }
                Some(_) => {
                    stack.push((None, ms(wide)));
                    schedule.pass_closed(key("wide", "val"), of_cost(0, ms(wide)), now);
                }
                None => {}
            }
            now += slice;
            let Some((closed, left)) = stack.last_mut() else { continue };
            let used = slice.min(*left);
            *left -= used;
            let ended = left.is_zero().then_some(*closed);
            schedule.charge(used, now);
            if let Some(closed) = ended {
                stack.pop();
                schedule.finished(Duration::ZERO, now);
                delays.extend(closed.map(|closed| now - closed));
            }
        }
        delays.sort_unstable();
        let most = ms(2 * small + 1000);
        prop_assert!(delays[delays.len() * 95 / 100] <= most, "{:?}", delays);
    }
}

#[test]
fn a_removed_run_leaves_nothing_behind() {
    let mut schedule = Schedule::new(ticks(), generous(), Room::default(), Duration::ZERO);
    schedule.pass_closed(key("a", "val"), Closed::live(1), ms(0));
    schedule.pass_closed(key("a", "test"), Closed::live(2), ms(0));
    schedule.pass_closed(key("b", "val"), Closed::live(3), ms(0));
    schedule.rows_changed(&key("a", "train"), 5, 5, ms(0));
    assert_eq!(schedule.keep_runs(|run| run == "b"), [2, 1]);
    assert_eq!(schedule.start(ms(5000)), Some(Job::Pass(key("b", "val"), 3)));
    schedule.finished(ms(1), ms(5001));
    assert_eq!((schedule.start(ms(6000)), schedule.lag(ms(6000))), (None, ms(0)));
}

#[test]
fn a_share_out_of_range_is_named() {
    for share in [0.0, -0.5, f64::NAN, f64::INFINITY] {
        let fault = Budget { cpu_share: share, ..Budget::default() }.check().unwrap_err();
        assert_eq!(fault.field, "cpu_share");
        let fault = Budget { busy_cpu_share: share, ..Budget::default() }.check().unwrap_err();
        assert_eq!(fault.field, "busy_cpu_share");
    }
    assert_eq!(Budget::default().check(), Ok(()));
}

#[test]
fn a_tick_may_take_the_share_of_an_interval_divided_by_the_splits_that_tick() {
    let budget = Budget { cpu_share: 0.5, busy_cpu_share: 0.05, burst: ms(4000) };
    let interval = Ticks { interval: ms(10_000), least_changed: 0.1 };
    let mut schedule: Schedule<()> = Schedule::new(interval, budget, Room::default(), Duration::ZERO);
    let close = |schedule: &Schedule<()>, now, expected: f64| {
        let found = schedule.allowance(now);
        assert!((found - expected).abs() < 1e-9, "{found} and not {expected}");
    };
    close(&schedule, ms(0), 5.0);
    schedule.spare(0.0, ms(0));
    close(&schedule, ms(0), 0.5);
    schedule.spare(0.2, ms(0));
    for split in ["a", "b", "c", "d"] {
        schedule.rows_changed(&key("run", split), 100, 100, ms(0));
    }
    close(&schedule, ms(10_000), 0.5);
    // The time charged to `a` is reported while it runs, and is zero for the next job.
    assert!(schedule.start(ms(10_000)).is_some());
    schedule.charge(ms(300), ms(11_000));
    schedule.charge(ms(400), ms(12_000));
    assert_eq!(schedule.spent(), ms(700));
    schedule.finished(ms(100), ms(12_100));
    assert_eq!(schedule.spent(), Duration::ZERO);
    close(&schedule, ms(12_100), 0.5);
    // `a` had its tick at 10 s and no new rows: from 30 s on it is not counted.
    close(&schedule, ms(30_000), 0.5);
    close(&schedule, ms(30_001), 2.0 / 3.0);
    schedule.keep_runs(|_| false);
    close(&schedule, ms(30_001), 2.0);
    let always = Ticks { interval: Duration::ZERO, ..interval };
    assert_eq!(Schedule::<()>::new(always, budget, Room::default(), Duration::ZERO).allowance(ms(5)), f64::INFINITY);
}
