use std::collections::BTreeMap;
use std::fs::OpenOptions;

use super::duplicate_search::FoundDuplicates;
use super::*;

/// Returns the ids of a text and its header, or the error.
fn read_ids(text: &[u8]) -> Result<(Vec<u128>, Option<String>), String> {
    let (mut parser, mut ids) = (IdParser::default(), Vec::new());
    for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
        let id = parser.parse(line, number);
        ids.extend(id.map_err(|cause| format!("f, line {number}: {cause}"))?);
    }
    Ok((ids, parser.header))
}

#[test]
fn lines_of_spreadsheets_are_read() {
    let text = "\u{feff}\"order id\";\"name, first\"\r\n\r\n \"17\" ;x\r\n18\t\"19\"\n,\n20,\n21";
    let error = read_ids(text.as_bytes()).unwrap_err();
    assert!(error.starts_with("f, line 5: the id is empty"), "{error}");
    let text = text.replace("\n,\n", "\n\n");
    let (ids, header) = read_ids(text.as_bytes()).unwrap();
    assert_eq!(ids, [17, 18, 20, 21]);
    assert_eq!(header.as_deref(), Some("\"order id\" (line 1)"));
}

#[test]
fn form_of_the_first_id_is_that_of_all() {
    let hex = read_ids(b"03229a1924045000\n0322911924045000\n0x11");
    assert_eq!(hex.unwrap().0, [0x3229a1924045000, 0x322911924045000, 0x11]);
    assert_eq!(read_ids(b"base36:z\nbase36:10\nz").unwrap().0, [35, 36, 35]);
    // In the other forms names of columns are ids.
    let (ids, header) = read_ids(b"subscription\n-1").unwrap();
    assert_eq!(
        (&ids[..], header.as_deref()),
        (
            &[u128::from(u64::MAX)][..],
            Some("\"subscription\" (line 1)")
        )
    );
    let uuids = b"{6bd19fe7-7b3d-45a0-bb07-41e46df9242d}\n6BD19FE7-7B3D-45A0-BB07-41E46DF9242D";
    assert_eq!(
        read_ids(uuids).unwrap().0,
        [0x6bd19fe7_7b3d_45a0_bb07_41e46df9242d; 2]
    );
    for (text, line) in [
        (&b"1\nten"[..], 2),
        (b"6bd19fe7-7b3d-45a0-bb07-41e46df9242d\nten", 2),
        (b"id\n\nother\n1", 3),
        (b"1\n\xff\xfe", 2),
        (b"17\n03229a1924045000", 2),
        (b"id\n1psf8zbrfl6o", 2),
    ] {
        let error = read_ids(text).unwrap_err();
        assert!(error.starts_with(&format!("f, line {line}: ")), "{error}");
    }
    let long = vec![b'1'; (1 << 20) + 1];
    let error = read_ids(&long).unwrap_err();
    assert!(error.contains("above 1048576 bytes"), "{error}");
}

/// Finds the duplicates with a sort of runs of seven ids on disk.
fn search_on_disk(ids: &[u128]) -> FoundDuplicates {
    let mut search = DuplicateSearch::new(std::env::temp_dir(), 7);
    for id in ids {
        search.add(*id).unwrap();
    }
    search.finish(&ProgressBar::hidden()).unwrap()
}

#[test]
fn duplicates_are_those_of_a_map() {
    let mut seed = 1u64;
    for length in [1, 6, 7, 8, 13, 14, 15, 400] {
        for range in [3, 50, 100_000] {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let id = u128::from(seed >> 33) % range;
                // Some ids have more than 64 bits.
                if id.is_multiple_of(5) { id << 100 } else { id }
            };
            let ids: Vec<u128> = (0..length).map(|_| next()).collect();
            let mut counts = BTreeMap::new();
            for id in &ids {
                *counts.entry(*id).or_insert(0usize) += 1;
            }
            counts.retain(|_, times| *times > 1);
            let repeats = counts.values().map(|times| *times as u64 - 1).sum();
            let expected = (repeats, counts.into_iter().take(10).collect());
            assert_eq!(search_on_disk(&ids), expected, "{ids:?}");
        }
    }
    assert_eq!(search_on_disk(&[4; 20]), (19, vec![(4, 20)]));
}

#[test]
fn failing_disk_names_the_directory_and_the_flag() {
    let mut search = DuplicateSearch::new("/no/such/dir".into(), 2);
    let error = (0..3).try_for_each(|id| search.add(id)).unwrap_err();
    let error = format!("{error:#}");
    for words in ["/no/such/dir", "--tmp", "No such file"] {
        assert!(error.contains(words), "{error}");
    }
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = search.write_run(full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn order_counts_ids_below_the_greatest_before() {
    let count = |ids: &[(u128, u64)], is_falling| {
        let mut order = OrderCheck::default();
        for (id, time_ms) in ids {
            order.add(*id, is_falling, Some(*time_ms));
        }
        order.to_string()
    };
    let rising = [(1, 10), (5, 50), (5, 50), (4, 40), (2, 20), (9, 90)];
    assert_eq!(
        count(&rising, false),
        "2, at most 0.030 s behind one before"
    );
    let falling = [(9, 10), (5, 50), (7, 30), (1, 90)];
    assert_eq!(
        count(&falling, true),
        "1, at most 0.020 s behind one before"
    );
    assert_eq!(count(&rising[..3], false), "0");
}
