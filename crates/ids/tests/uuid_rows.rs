//! What the founding texts say about UUIDs and GUIDs. Each test bears the number of its row.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::Cell;
use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use seqsvr_ids::uuids::{
    GregorianUuids, Uuid, UuidV7Generator, V8_FAMILY_MAX, make_v4, make_v8, parse_namespace,
    read_v8,
};

/// 2022-02-22T19:22:22Z, the time of the examples of RFC 9562.
const RFC_TIME: Duration = Duration::from_secs(1_645_557_742);

/// Returns numbers in a fixed order.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state ^ (state >> 29)
    }
}

/// Returns bytes of a UUID as their number.
fn node_of(hex: u64) -> impl FnMut() -> u64 {
    move || hex
}

#[test]
fn c2_random_uuid_has_122_bits_of_the_caller() {
    let bits = Cell::new(0);
    let uuid = make_v4(|| bits.replace(u64::MAX));
    assert_eq!(uuid.to_string(), "00000000-0000-4000-bfff-ffffffffffff");
}

#[test]
fn b10_uuid_is_read_and_written_in_all_text_forms() {
    let text = "6bd19fe7-7b3d-45a0-bb07-41e46df9242d";
    let uuid: Uuid = text.parse().unwrap();
    assert_eq!(uuid.to_string(), text);
    assert_eq!(uuid.get_version_num(), 4);
    assert_eq!(uuid.as_bytes().len(), 16);
    for form in [
        "6bd19fe77b3d45a0bb0741e46df9242d",
        "{6BD19FE7-7B3D-45A0-BB07-41E46DF9242D}",
        "urn:uuid:6bd19fe7-7b3d-45a0-bb07-41e46df9242d",
    ] {
        assert_eq!(form.parse(), Ok(uuid), "{form}");
    }
}

#[test]
fn d4_guid_bytes_are_mixed_endian_and_read_both_ways() {
    let uuid: Uuid = "00112233-4455-6677-8899-aabbccddeeff".parse().unwrap();
    let mixed = [
        0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xff,
    ];
    assert_eq!(uuid.to_bytes_le(), mixed);
    assert_eq!(Uuid::from_bytes_le(mixed), uuid);
    assert_eq!(uuid.into_bytes()[..4], [0x00, 0x11, 0x22, 0x33]);
    assert_eq!(Uuid::from_bytes(uuid.into_bytes()), uuid);
}

/// The parts of GUIDs are not unique: neither the first half nor the second.
#[test]
fn d4_substrings_of_guids_repeat() {
    let uuids = GregorianUuids::new(numbers(3));
    let times = (0..3).map(|i| RFC_TIME + Duration::from_secs(430 * i));
    let made: Vec<_> = times.map(|time| uuids.make_v1(time)).collect();
    let halves = |bytes: std::ops::Range<usize>| {
        let parts = made
            .iter()
            .map(|uuid| uuid.as_bytes()[bytes.clone()].to_vec());
        parts.collect::<HashSet<_>>().len()
    };
    assert_eq!(halves(8..16), 1);
    assert_eq!(halves(0..16), 3);
}

#[test]
fn d8_e2_v1_and_v6_have_the_time_of_1582_and_no_hardware_address() {
    // Node and sequence of RFC 9562, A.1; its node has the multicast bit.
    let uuids = || GregorianUuids::new(node_of(0x9f6b_dece_d846_33c8));
    assert_eq!(
        uuids().make_v1(RFC_TIME).to_string(),
        "c232ab00-9414-11ec-b3c8-9f6bdeced846"
    );
    assert_eq!(
        uuids().make_v6(RFC_TIME).to_string(),
        "1ec9414c-232a-6b00-b3c8-9f6bdeced846"
    );
    let hardware = GregorianUuids::new(node_of(0x0011_2233_4455_0000)).make_v1(RFC_TIME);
    assert_eq!(
        hardware.get_node_id(),
        Some([0x01, 0x11, 0x22, 0x33, 0x44, 0x55])
    );
    let years = (1u64 << 60) as f64 / 1e7 / (365.0 * 86_400.0);
    assert_eq!(years as u64, 3_655);
}

#[test]
fn d8_v6_rises_as_bytes_and_v1_repeats_no_time() {
    let uuids = GregorianUuids::new(numbers(5));
    let times = (0..10_000u64).map(|i| RFC_TIME + Duration::from_micros(10 * (i % 100)));
    let sorted: Vec<_> = times.clone().map(|time| uuids.make_v6(time)).collect();
    assert!(sorted.is_sorted_by(|a, b| a < b));
    let mut seen: HashSet<_> = sorted.iter().map(ticks_of).collect();
    for time in times {
        assert!(seen.insert(ticks_of(&uuids.make_v1(time))));
    }
}

fn ticks_of(uuid: &Uuid) -> u64 {
    uuid.get_timestamp().unwrap().to_gregorian().0
}

#[test]
fn e2_v3_and_v5_are_functions_of_namespace_and_name() {
    // RFC 9562, A.2 and A.4.
    let dns = parse_namespace("dns").unwrap();
    let name = b"www.example.com";
    assert_eq!(
        Uuid::new_v3(&dns, name).to_string(),
        "5df41881-3aed-3515-88a7-2f4a814cf09e"
    );
    assert_eq!(
        Uuid::new_v5(&dns, name).to_string(),
        "2ed6657d-e927-568b-95e1-2665a8aea6a2"
    );
    assert_eq!(
        parse_namespace("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        Ok(dns)
    );
    let known: HashSet<_> = ["dns", "url", "oid", "x500"]
        .map(|n| parse_namespace(n).unwrap())
        .into();
    assert_eq!(known.len(), 4);
    let error = parse_namespace("DNS").unwrap_err().to_string();
    assert!(error.contains("dns, url, oid or x500"), "{error}");
}

#[test]
fn e2_v4_has_version_and_variant_and_random_bits() {
    let mut random = numbers(11);
    let uuids: HashSet<_> = (0..10_000).map(|_| make_v4(&mut random)).collect();
    assert_eq!(uuids.len(), 10_000);
    let (mut ones, mut zeros) = (0, 0);
    for uuid in &uuids {
        assert_eq!((uuid.get_version_num(), uuid.as_bytes()[8] >> 6), (4, 2));
        ones |= uuid.as_u128();
        zeros |= !uuid.as_u128();
    }
    assert_eq!((ones & zeros).count_ones(), 122);
}

#[test]
fn e2_v7_has_time_version_counter_and_random_bits() {
    // The second draw is the count with which a millisecond begins, in its upper bits.
    let made = |bits, count: u64| {
        let mut draws = [bits, count << 49].into_iter();
        UuidV7Generator::default().make(RFC_TIME, || draws.next().unwrap())
    };
    for (bits, count, text) in [
        (0, 0, "017f22e2-79b0-7000-8000-000000000000"),
        (u64::MAX, 0, "017f22e2-79b0-7000-83ff-ffffffffffff"),
        (0, 0x7abc, "017f22e2-79b0-77ab-b000-000000000000"),
    ] {
        assert_eq!(made(bits, count).to_string(), text);
    }
}

#[test]
fn e2_v7_rises_within_a_millisecond_and_when_the_clock_is_set_back() {
    let uuids = UuidV7Generator::default();
    let mut random = numbers(13);
    let times = (0..300_000u64).map(|i| RFC_TIME + Duration::from_millis(5 - i % 2 * (i % 5)));
    let made: Vec<_> = times.map(|time| uuids.make(time, &mut random)).collect();
    assert!(made.is_sorted_by(|a, b| a < b));
    // 65,536 counts a millisecond: more continue in the next one.
    let ms = |uuid: &Uuid| uuid.as_u128() >> 80;
    assert!((4..=9).contains(&(ms(&made[made.len() - 1]) - ms(&made[0]))));
    // Later times are used as they are.
    let later = uuids.make(RFC_TIME + Duration::from_secs(9), &mut random);
    assert_eq!(ms(&later), 0x017f_22e2_79b0 + 9_000);
}

#[test]
fn e2_v7_of_threads_never_repeats_its_time_and_counter() {
    let uuids = &UuidV7Generator::default();
    let made = thread::scope(|scope| {
        let threads = [0; 4].map(|_| {
            scope.spawn(move || {
                let made = (0..50_000).map(|_| uuids.make(RFC_TIME, || 0));
                let made: Vec<_> = made.collect();
                assert!(made.is_sorted_by(|a, b| a < b));
                made
            })
        });
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    let count = made.len();
    assert_eq!(made.into_iter().collect::<HashSet<_>>().len(), count);
}

#[test]
fn e2_v8_holds_an_id_of_64_bits_and_its_family() {
    let uuid = make_v8(0, 225_912_364_091_068_416);
    assert_eq!(uuid.to_string(), "00000000-0000-8000-8322-9a1924045000");
    let ids = [0, 1, 1 << 62, i64::MAX as u64, u64::MAX];
    let all: Vec<_> = [0, 7, V8_FAMILY_MAX]
        .into_iter()
        .flat_map(|family| ids.map(|id| (family, id)))
        .collect();
    let made: Vec<_> = all
        .iter()
        .map(|(family, id)| make_v8(*family, *id))
        .collect();
    assert!(made.is_sorted_by(|a, b| a < b), "in the order of the ids");
    let read: Vec<_> = made.iter().map(|uuid| read_v8(*uuid).unwrap()).collect();
    assert_eq!(read, all);
    // The example of RFC 9562, B.1, is of another maker.
    let other: Uuid = "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0".parse().unwrap();
    assert_eq!(read_v8(other), None);
    assert_eq!(read_v8(make_v4(|| 0)), None);
}
