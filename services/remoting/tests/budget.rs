//! What all connections of a service have together. By itself, because it counts for the process.

use vfun_remoting_host::limits::{CLIENT_OBJECTS_MAX, OBJECTS_MAX};
use vfun_remoting_host::{Name, Objects, Refusal};

/// A kind of objects.
const KIND: u16 = 3;

fn connection(objects: usize) -> Objects {
    let mut all = Objects::default();
    (0..objects).for_each(|place| all.insert(Name::new(place, 1), KIND, place, Name::NONE));
    all
}

#[test]
fn one_program_does_not_use_up_what_others_of_its_client_need() {
    let free = Name::new(OBJECTS_MAX - 1, 1);
    let mut last = connection(1);
    let mut programs: Vec<_> = (0..4).map(|_| connection(OBJECTS_MAX - 1)).collect();
    assert_eq!(last.check_free(free), Ok(()));
    let left = CLIENT_OBJECTS_MAX - 4 * (OBJECTS_MAX - 1) - 1;
    (1..=left).for_each(|place| last.insert(Name::new(place, 1), KIND, place, Name::NONE));
    assert_eq!(last.check_free(free), Err(Refusal::Budget));
    last.remove(Name::new(1, 1));
    assert_eq!(last.check_free(free), Ok(()));
    // Of one kind, and as connections end.
    let most = CLIENT_OBJECTS_MAX / 2;
    assert_eq!(last.check_client_most(KIND, most), Err(Refusal::Budget));
    assert_eq!(last.check_client_most(KIND + 1, most), Ok(()), "another kind");
    programs.truncate(2);
    programs[0].take_all();
    assert_eq!(last.check_client_most(KIND, most), Ok(()));
}
