//! A database that is killed, and parts that are cut too short.

use std::time::Duration;

use conceptwatch::history::{Ending, FirstPoint, PassState, PutPart, Store};
use conceptwatch::point::Point;
use conceptwatch::sample::{Part, Union};

use crate::parts::Job;
use crate::postgres_server::Server;
use crate::{Hub, fixtures, small};

#[test]
fn parts_that_a_killed_database_lost_come_again() {
    let Some(server) = Server::start() else { return };
    let hub = Hub::at(server.database(), small());
    let (closed, open) = (hub.closed("val", 7), hub.pass("test", 7));
    let parts = hub.parts(2, 7, None);
    assert_eq!(hub.store.put_part(&open, "source-0", &parts[0].1).unwrap(), PutPart::Open);
    let leased = hub.claim().unwrap();
    server.kill();
    // The lease is still there; what it is to be computed from is not.
    assert!(hub.claim().is_none());
    assert!(hub.store.job_material(&leased).unwrap().parts.unwrap().is_empty());
    assert!(hub.store.reopen_pass(&leased).unwrap());
    let states = || hub.store.pass_states("source-0", &[closed.clone(), open.clone()]).unwrap();
    assert_eq!(states(), [PassState::NeedsWhole, PassState::NeedsWhole]);
    assert!(hub.claim().is_none());
    for pass in [&closed, &open] {
        assert_eq!(hub.store.put_part(pass, "source-0", &parts[0].1).unwrap(), PutPart::Open);
    }
    assert_eq!(states(), [PassState::Open, PassState::Open]);
    for pass in [&closed, &open] {
        assert_eq!(hub.store.put_part(pass, "source-1", &parts[1].1).unwrap(), PutPart::Closed);
    }
    let whole = hub.job.exactly(&parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>()).0;
    for _ in 0..2 {
        let job = hub.claim().unwrap();
        let parts: Vec<Vec<u8>> =
            hub.store.job_material(&job).unwrap().parts.unwrap().iter().map(Part::to_bytes).collect();
        assert_eq!(hub.job.exactly(&parts).0.sample.ids(), whole.sample.ids());
        let point = Point { incomplete: false, ..fixtures::point("run", &job.pass.split, 7, 2) };
        let first = FirstPoint { point: &point, influences: None, next_cutoff: None, following: &[] };
        assert!(hub.store.finish_first(&job, &first).unwrap());
    }
    assert_eq!(states(), [(); 2].map(|()| PassState::Settled { incomplete: false, is_final: true }));
}

#[test]
fn parts_that_never_come_again_leave_a_record() {
    let Some(server) = Server::start() else { return };
    let hub = Hub::at(server.database(), small());
    let pass = hub.closed("val", 7);
    let job = hub.claim().unwrap();
    server.kill();
    assert!(hub.store.reopen_pass(&job).unwrap());
    let overdue = hub.store.close_overdue(Duration::ZERO).unwrap();
    assert_eq!((overdue.closed, overdue.lost), (0, 1));
    let record = hub.store.unscored_at("run", "val", 7).unwrap().unwrap();
    assert_eq!((record.outcome, record.attempt), (Ending::Unsettled, Some(pass.attempt)));
    assert!(hub.claim().is_none());
    assert_eq!(hub.store.put_part(&pass, "source-0", &hub.parts(2, 7, None)[0].1).unwrap(), PutPart::Closed);
}

#[test]
fn slow_scores_whose_parts_are_lost_do_not_touch_the_point() {
    let Some(server) = Server::start() else { return };
    let hub = Hub::at(server.database(), small());
    let pass = hub.closed("val", 7);
    let point = Point { incomplete: false, ..fixtures::point("run", "val", 7, 2) };
    let following = ["tests".to_owned()];
    let first = FirstPoint { point: &point, influences: None, next_cutoff: Some(1), following: &following };
    assert!(hub.store.finish_first(&hub.claim().unwrap(), &first).unwrap());
    server.kill();
    assert_eq!(hub.store.next_cutoff("run", "val").unwrap(), None, "lost, so that whole parts come");
    let job = hub.claim().unwrap();
    assert_eq!(job.kind, "tests");
    assert!(hub.store.reopen_pass(&job).unwrap());
    // Immediately, since no sidecar has the rows any more.
    assert_eq!(
        hub.store.pass_states("source-0", &[pass]).unwrap(),
        [PassState::Settled { incomplete: false, is_final: true }]
    );
    assert_eq!(hub.store.close_overdue(Duration::ZERO).unwrap().lost, 0);
    assert!(hub.claim().is_none());
    assert_eq!(hub.store.point("run", "val", None, true).unwrap(), Some(point));
    assert_eq!(hub.store.unscored("run", "val").unwrap(), []);
}

#[test]
fn parts_that_are_cut_too_short_do_not_close_the_pass_again() {
    let Some(hub) = Hub::new(Job { batch_rows: 8, ..Job::new(2, 200, 64, 1) }) else { return };
    let pass = hub.pass("val", 7);
    let (cut, whole) = (hub.parts(2, 7, Some(u64::MAX / 64)), hub.parts(2, 7, None));
    let put = |(source, part): &(String, Vec<u8>)| hub.store.put_part(&pass, source, part).unwrap();
    assert_eq!((put(&cut[0]), put(&cut[1])), (PutPart::Open, PutPart::Closed));
    let job = hub.claim().unwrap();
    let parts: Vec<Vec<u8>> = hub.store.job_material(&job).unwrap().parts.unwrap().iter().map(Part::to_bytes).collect();
    assert!(matches!(hub.job.union(&parts), Union::NeedsWhole { .. }));
    assert!(hub.store.reopen_pass(&job).unwrap());
    assert_eq!((put(&cut[0]), put(&whole[1])), (PutPart::Open, PutPart::Open));
    let states = |source| hub.store.pass_states(source, std::slice::from_ref(&pass)).unwrap().remove(0);
    assert_eq!((states("source-0"), states("source-1")), (PassState::NeedsWhole, PassState::Open));
    assert_eq!((put(&cut[1]), put(&whole[0])), (PutPart::Open, PutPart::Closed));
    let job = hub.claim().unwrap();
    let parts: Vec<Vec<u8>> = hub.store.job_material(&job).unwrap().parts.unwrap().iter().map(Part::to_bytes).collect();
    assert_eq!(hub.job.exactly(&parts).0.sample.rows(), 64);
}

#[test]
fn the_deadline_leaves_parts_out_that_stay_cut_too_short() {
    let Some(hub) = Hub::new(Job { batch_rows: 8, ..Job::new(2, 200, 64, 1) }) else { return };
    let pass = hub.pass("val", 7);
    let (cut, whole) = (hub.parts(2, 7, Some(u64::MAX / 64)), hub.parts(2, 7, None));
    for (source, part) in &cut {
        hub.store.put_part(&pass, source, part).unwrap();
    }
    assert!(hub.store.reopen_pass(&hub.claim().unwrap()).unwrap());
    hub.store.put_part(&pass, &whole[0].0, &whole[0].1).unwrap();
    assert_eq!(hub.store.close_overdue(Duration::ZERO).unwrap().closed, 1);
    let parts = hub.store.job_material(&hub.claim().unwrap()).unwrap().parts.unwrap();
    assert_eq!((parts.len(), parts[0].cutoff()), (1, None));
}
