use super::*;

fn spec(layout: &str) -> FamilySpec {
    let scale = TickScale::new(0, 1).unwrap();
    FamilySpec::new("snowflake", layout.parse().unwrap(), scale)
}

fn snowflake() -> FamilySpec {
    spec("0:1,time:41,worker:10,seq:12")
}

#[test]
fn family_that_cannot_work_is_rejected() {
    let limits = FamilyLimits::DEFAULT;
    let reserved = |first, last| vec![(WorkerId(first), WorkerId(last))];
    let changed = |change: fn(&mut FamilySpec)| {
        let mut spec = snowflake();
        change(&mut spec);
        spec
    };
    for (spec, limits, part) in [
        (changed(|s| s.name = "a b".into()), limits, "family name"),
        (
            spec("unsigned,time:42,seq:22"),
            limits,
            "time 42 + lane 0 + seq 22 are more than 63 bits",
        ),
        (changed(|s| s.dc = 1), limits, "dc must be 0 to 0"),
        (
            changed(|s| s.last_worker = WorkerId(1_024)),
            limits,
            "last worker must be 0 to 1023",
        ),
        (
            changed(|s| s.first_worker = WorkerId(1_024)),
            limits,
            "first worker 1024 is above",
        ),
        (
            changed(|s| s.seq_min = 4_095 + 1),
            limits,
            "seq-min must be 0 to 4095",
        ),
        (
            FamilySpec {
                reserved: reserved(5, 4),
                ..snowflake()
            },
            limits,
            "do not lie within 0 to 1023",
        ),
        (
            FamilySpec {
                reserved: reserved(0, 1_023),
                ..snowflake()
            },
            limits,
            "leave at least one",
        ),
        (
            changed(|s| s.lanes_once = true),
            limits,
            "a layout with lanes",
        ),
        (
            changed(|s| (s.sticky, s.reuse_never) = (true, true)),
            limits,
            "cannot have --reuse never",
        ),
        (
            snowflake(),
            FamilyLimits {
                window_ms: 999,
                ..limits
            },
            "window must be 1000 to",
        ),
        (
            snowflake(),
            FamilyLimits {
                window_max_ms: 9_999,
                ..limits
            },
            "at most window-max",
        ),
        (
            snowflake(),
            FamilyLimits {
                ahead_ms: 8_000,
                ..limits
            },
            "at most half of the window",
        ),
        (
            snowflake(),
            FamilyLimits {
                sequence_start: TickStart::Random { below: 4_097 },
                ..limits
            },
            "seq-start random must be 1 to 4096",
        ),
        (
            snowflake(),
            FamilyLimits {
                workers_per_holder: 0,
                ..limits
            },
            "must be at least 1",
        ),
    ] {
        let error = validate_family(&spec, &limits).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(validate_family(&snowflake(), &limits), Ok(()));
    let hours = FamilySpec {
        scale: TickScale::new(0, 3_600_000).unwrap(),
        ..snowflake()
    };
    assert!(
        validate_family(&hours, &limits)
            .unwrap_err()
            .contains("two ticks")
    );
}

#[test]
fn holder_has_a_printable_name() {
    for good in ["a", "pod-3 of a", &"~".repeat(HOLDER_NAME_MAX)] {
        assert_eq!(validate_holder(good), Ok(()), "{good:?}");
    }
    for bad in ["", "a\nb", "\u{e4}", &"x".repeat(HOLDER_NAME_MAX + 1)] {
        assert!(
            validate_holder(bad).unwrap_err().contains("1 to 128"),
            "{bad:?}"
        );
    }
}

#[test]
fn reserved_workers_are_not_counted() {
    let range = |first, last| (WorkerId(first), WorkerId(last));
    let spec = FamilySpec {
        first_worker: WorkerId(10),
        last_worker: WorkerId(19),
        reserved: vec![range(10, 11), range(15, 15)],
        ..snowflake()
    };
    assert_eq!(validate_family(&spec, &FamilyLimits::DEFAULT), Ok(()));
    assert_eq!(spec.worker_count(), 7);
    assert_eq!(spec.reserved_range(WorkerId(11)), Some(range(10, 11)));
    assert_eq!(spec.reserved_range(WorkerId(12)), None);
}
