use std::collections::BTreeSet;

use seqsvr_core::layout::format_utc_ms;

use super::*;
use crate::codec::IdParts;

/// An id that a published package made.
#[derive(Clone, Copy, Debug)]
struct PackageId {
    package: &'static str,
    epoch_ms: u64,
    time_ms: u64,
    parts: IdParts,
    /// Wider than an id of this service in some cases.
    id: u128,
}

/// Returns the ids of the table.
fn package_ids() -> Vec<PackageId> {
    let lines = include_str!("package_ids.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    let parse = |row: &'static str| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let number = |column: usize| columns[column].parse::<u64>().unwrap();
        let parts = IdParts {
            dc: number(4) as u32,
            worker: number(5) as u32,
            seq: number(6) as u32,
            ..IdParts::default()
        };
        PackageId {
            package: columns[0],
            epoch_ms: number(2),
            time_ms: number(3),
            parts,
            id: columns[7].parse().unwrap(),
        }
    };
    rows.map(parse).collect()
}

#[test]
fn preset_reads_and_makes_the_ids_of_its_package() {
    let (mut narrow, mut wide) = (0, Vec::new());
    for row in package_ids() {
        let Ok(id) = u64::try_from(row.id) else {
            wide.push((row.package, row.epoch_ms));
            continue;
        };
        narrow += 1;
        let preset = find_preset(row.package).unwrap();
        let scheme = preset.scheme(Some(row.epoch_ms)).unwrap();
        let epoch_ms = preset.epoch_ms.unwrap_or(row.epoch_ms);
        assert_eq!(epoch_ms, row.epoch_ms, "{row:?}");
        let tick = scheme.scale().tick_at(row.time_ms).unwrap();
        let parts = IdParts { tick, ..row.parts };
        assert_eq!(scheme.codec().encode(&parts), Ok(id), "{row:?}");
        let reading = scheme.read(id).unwrap();
        assert_eq!(reading.parts, parts, "{row:?}");
        let late_ms = row.time_ms - reading.time_ms;
        assert!(late_ms < preset.unit_ms, "{row:?}");
        // A database that has only signed integers keeps the same bits.
        let signed = id as i64;
        assert_eq!(scheme.read(signed as u64), Ok(reading), "{row:?}");
        assert!(parts.seq >= preset.seq_min, "{row:?}");
    }
    assert_eq!(narrow, 56);
    // Ids of 65 bits: the package with the Unix epoch.
    assert_eq!(wide, [("npm:sonyflake", 0), ("npm:sonyflake", 0)]);
}

#[test]
fn preset_of_a_package_has_an_id_of_each_package() {
    let rows = package_ids();
    let made: BTreeSet<&str> = rows.iter().map(|row| row.package).collect();
    let packages = PRESETS.iter().flat_map(|preset| &preset.packages);
    let named: BTreeSet<&str> = packages.map(|(package, _)| *package).collect();
    assert_eq!(made, named);
}

#[test]
fn preset_table_is_sound() {
    let rows = include_str!("presets.tsv").lines();
    assert_eq!(
        PRESETS.len(),
        rows.filter(|row| !row.starts_with('#')).count()
    );
    let mut names = BTreeSet::new();
    let mut schemes = BTreeSet::new();
    for preset in PRESETS.iter() {
        assert!(!preset.note.is_empty(), "{}", preset.name);
        for (package, version) in &preset.packages {
            assert!(names.insert(*package), "{package}");
            assert!(!version.is_empty(), "{package}");
        }
        let is_package = preset.name.contains(':');
        assert!(names.insert(preset.name) || is_package, "{}", preset.name);
        let first = preset.packages.first().map(|(package, _)| *package);
        assert!(!is_package || first == Some(preset.name), "{}", preset.name);
        let is_new = schemes.insert((preset.layout, preset.epoch_ms, preset.unit_ms));
        assert!(
            is_new || !is_package,
            "{}: the same as another",
            preset.name
        );
        let scheme = preset.scheme(Some(preset.epoch_ms.unwrap_or(0))).unwrap();
        assert_eq!(scheme.layout().to_string(), preset.layout);
        assert!(preset.seq_min < 1 << scheme.layout().bits_of("seq"));
        // Ids of different makers are ordered by time: nothing that varies lies above it.
        assert!(scheme.layout().is_ordered_by_time(), "{}", preset.name);
    }
}

#[test]
fn preset_time_ends_when_documented() {
    for (name, end) in [
        ("snowflake", "2095-09-07"),
        ("twitter", "2080-07-10T17:30:30.209Z"),
        ("leaf", "2080-07-10"),
        ("sonyflake", "2188-11-16"),
        ("js", "2095-09-07"),
        ("ip16", "2095-09-07"),
        ("timelines", "2043-06-03"),
        ("rollbacks", "2043-06-03"),
    ] {
        let scheme = find_preset(name).unwrap().scheme(None).unwrap();
        let end_ms = scheme.layout().end_ms(scheme.scale());
        assert!(format_utc_ms(end_ms).starts_with(end), "{name}");
    }
    let js = find_preset("js").unwrap().scheme(None).unwrap();
    assert_eq!(js.layout().total_bits(), 53);
}

/// Row B11: the six lines that were printed with the format "time, #seq, @(dc,worker) => id, hex".
#[test]
fn b11_scheme_reads_the_six_printed_ids() {
    let twitter = find_preset("twitter").unwrap();
    let scheme = twitter.scheme(Some(1_451_606_400_000)).unwrap();
    for (time, seq, id, hex) in [
        ("848", 0, 225_912_364_091_068_416, "03229A1924045000"),
        ("892", 0, 225_912_364_275_617_792, "03229A192F045000"),
        ("893", 0, 225_912_364_279_812_096, "03229A192F445000"),
        ("893", 1, 225_912_364_279_812_097, "03229A192F445001"),
        ("894", 0, 225_912_364_284_006_400, "03229A192F845000"),
        ("894", 1, 225_912_364_284_006_401, "03229A192F845001"),
    ] {
        assert_eq!(format!("{id:016X}"), hex);
        let reading = scheme.read(id).unwrap();
        let parts = reading.parts;
        assert_eq!((parts.dc, parts.worker, parts.seq), (2, 5, seq), "{id}");
        assert_eq!(
            format_utc_ms(reading.time_ms),
            format!("2017-09-15T09:35:04.{time}Z")
        );
        assert_eq!(scheme.codec().encode(&parts), Ok(id));
    }
    assert_eq!(
        scheme.read(225_912_364_091_068_416).unwrap().parts.tick,
        53_861_704_848
    );
}

#[test]
fn scheme_reads_published_examples_of_other_systems() {
    // The readme of UidGenerator, with the widths of its example.
    let layout = "0:1,time:29,worker:21,seq:13".parse().unwrap();
    let scale = seqsvr_core::layout::TickScale::new(1_474_300_800_000, 1_000).unwrap();
    let readme = IdScheme::new(layout, scale);
    let leaf = find_preset("leaf").unwrap().scheme(None).unwrap();
    let twitter = find_preset("twitter").unwrap().scheme(None).unwrap();
    for (scheme, id, time, worker, seq) in [
        (
            readme,
            180_363_646_902_239_241,
            "2017-01-19T04:15:46.000Z",
            4,
            9,
        ),
        // The example of Leaf's own decoder: 1567733700834.
        (
            leaf,
            1_169_786_042_799_259_000,
            "2019-09-06T01:35:00.834Z",
            39,
            3_448,
        ),
        (
            twitter,
            2_006_515_713_438_646_272,
            "2026-01-01T00:00:00.000Z",
            0,
            0,
        ),
    ] {
        let reading = scheme.read(id).unwrap();
        assert_eq!(format_utc_ms(reading.time_ms), time);
        assert_eq!((reading.parts.worker, reading.parts.seq), (worker, seq));
        assert_eq!(scheme.codec().encode(&reading.parts), Ok(id));
    }
}

#[test]
fn preset_without_an_epoch_requires_one() {
    for (name, part) in [
        ("uidgenerator", "ended on 2024-11-20T13:24:16Z"),
        (
            "npm:nodejs-snowflake",
            "the moment at which its object was made",
        ),
    ] {
        let error = find_preset(name)
            .unwrap()
            .scheme(None)
            .unwrap_err()
            .to_string();
        for part in [name, "needs an epoch", part, "such as 2026-01-01"] {
            assert!(error.contains(part), "{error}");
        }
    }
    let error = PRESETS[0].scheme(Some(u64::MAX)).unwrap_err().to_string();
    assert!(error.contains("year 9999"), "{error}");
}

#[test]
fn preset_with_an_unknown_name_is_suggested() {
    for (name, part) in [
        ("", "such as twitter"),
        ("no-such-thing", "crate:snowflaked"),
        ("nocobase", "use npm:@nocobase/snowflake-id"),
        (
            "Sonyflake",
            "it may mean sonyflake, npm:sonyflake, pypi:sonyflake-turbo",
        ),
        (
            "yitter",
            "npm:simple-flakeid, crate:idgenerator, crate:idgenerator:6-6",
        ),
    ] {
        let error = find_preset(name).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(
        find_preset("crate:rs-snowflake").unwrap().name,
        "npm:flake-idgen"
    );
}

#[test]
fn preset_of_a_word_has_namesakes_that_differ() {
    assert_eq!(
        find_namesakes("sonyflake"),
        ["npm:sonyflake", "pypi:sonyflake-turbo"]
    );
    let snowflake = find_namesakes("snowflake");
    for name in ["npm:nodejs-snowflake", "pypi:snowflake-id"] {
        assert!(snowflake.contains(&name), "{snowflake:?}");
    }
    // Those of Twitter's epoch agree in time and number.
    for name in ["twitter", "js", "uidgenerator", "crate:sonyflake", "yitter"] {
        assert!(find_namesakes(name).is_empty(), "{name}");
    }
}

#[test]
fn id_of_an_unchecked_time_is_read() {
    const NOW_MS: u64 = 1_795_737_600_000;
    let scheme_of = |name, epoch_ms| find_preset(name).unwrap().scheme(epoch_ms).unwrap();
    // UidGenerator after the end of its time: the seconds reach the sign.
    let uid = scheme_of("uidgenerator", Some(1_463_673_600_000));
    let id = (1_795_737_000 - 1_463_673_600) << 35 | 4 << 13 | 9;
    assert!((id as i64) < 0 && uid.read(id).is_err());
    let reading = uid.read_unchecked_time(id, NOW_MS).unwrap();
    assert_eq!(reading.time_ms, 1_795_737_000_000);
    assert_eq!((reading.parts.worker, reading.parts.seq), (4, 9));
    // A clock before the epoch, in 64 and in 53 bits.
    for name in ["twitter", "js"] {
        let scheme = scheme_of(name, None);
        let below = scheme.layout().bits_of("dc") + scheme.layout().bits_of("worker");
        let id = (-5i64 << (below + scheme.layout().bits_of("seq"))) as u64 | 7;
        let reading = scheme.read_unchecked_time(id, NOW_MS).unwrap();
        assert_eq!(reading.time_ms, scheme.scale().epoch_ms() - 5, "{name}");
        assert_eq!((reading.parts.tick as i64, reading.parts.seq), (-5, 7));
    }
    // Before 1970, beyond the end in the future, another field on top.
    assert_eq!(
        scheme_of("twitter", None).read_unchecked_time(1 << 63, NOW_MS),
        None
    );
    assert_eq!(
        scheme_of("js", None).read_unchecked_time(1 << 62, NOW_MS),
        None
    );
    let layout = "0:1,worker:10,time~:41,seq~:12".parse().unwrap();
    let other = IdScheme::new(layout, uid.scale());
    assert_eq!(other.read_unchecked_time(1 << 63, NOW_MS), None);
}

/// Returns the table of the page of presets.
fn render_table() -> String {
    let mut table = String::from(
        "| Preset | Layout | Unit | Epoch | Ends | Packages | Note |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for preset in PRESETS.iter() {
        let (epoch, end) = match preset.scheme(None) {
            Ok(scheme) => (
                format_utc_ms(scheme.scale().epoch_ms()),
                format_utc_ms(scheme.layout().end_ms(scheme.scale())),
            ),
            Err(_) => (String::from("must be given"), String::from("-")),
        };
        // The day, also of a year of six digits.
        let end = end.split('T').next().unwrap();
        let packages = preset.packages.iter();
        let packages: Vec<_> = packages.map(|(name, v)| format!("`{name}` {v}")).collect();
        let (name, layout, unit_ms) = (preset.name, preset.layout, preset.unit_ms);
        let packages = match packages.is_empty() {
            true => String::from("-"),
            false => packages.join(", "),
        };
        let note = preset.note;
        table += &format!(
            "| `{name}` | `{layout}` | {unit_ms} ms | {epoch} | {end} | {packages} | {note} |\n"
        );
    }
    table
}

#[test]
fn presets_page_has_the_table_of_the_code() {
    let page = include_str!("../../../../docs/guide/id-presets.md");
    let table = render_table();
    assert!(page.contains(&table), "put this into the page:\n{table}");
}
