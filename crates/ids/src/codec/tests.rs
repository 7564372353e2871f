use proptest::prelude::*;

use super::*;

fn codec_of(layout: &str) -> IdCodec {
    IdCodec::new(&layout.parse().unwrap())
}

#[test]
fn codec_part_above_its_width_is_rejected() {
    let codec = codec_of("0:1,time:41,dc:5,worker:5,seq:12");
    let most = IdParts {
        tick: (1 << 41) - 1,
        dc: 31,
        worker: 31,
        seq: 4_095,
        ..IdParts::default()
    };
    assert_eq!(codec.encode(&most), Ok(i64::MAX as u64));
    for (parts, text) in [
        (
            IdParts {
                tick: 1 << 41,
                ..most
            },
            "tick 2199023255552 does not fit the layout: it has 41 bits",
        ),
        (
            IdParts { dc: 32, ..most },
            "dc 32 does not fit the layout: it has 5 bits, so it is 0 to 31",
        ),
        (IdParts { worker: 32, ..most }, "use for example worker 31"),
        (
            IdParts { seq: 4_096, ..most },
            "it is 0 to 4095; use for example seq 4095",
        ),
        (
            IdParts { lane: 1, ..most },
            "lane 1 does not fit the layout: the layout has no bits for it",
        ),
        (IdParts { rand: 1, ..most }, "rand 1 does not fit"),
    ] {
        let error = codec.encode(&parts).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn codec_id_with_another_constant_is_rejected() {
    let codec = codec_of("0:1,const:4=9,time:41,worker:6,seq:12");
    let id = codec.encode(&IdParts::default()).unwrap();
    assert_eq!(id, 9 << 59);
    assert_eq!(codec.decode(id), Ok(IdParts::default()));
    let error = codec.decode(1 << 63 | id).unwrap_err().to_string();
    assert!(
        error.contains("bit 63 of 0 to 63 is 1, and it is 0"),
        "{error}"
    );
    let error = codec.decode(8 << 59).unwrap_err().to_string();
    assert!(
        error.contains("bit 59 of 0 to 63 is 0, and it is 1"),
        "{error}"
    );
    // Bits above a short layout are zeros.
    let short = codec_of("time:41,worker:3,seq:9");
    assert!(short.decode(1 << 52).is_ok());
    let error = short.decode(1 << 53).unwrap_err().to_string();
    assert!(error.contains("bit 53 of 0 to 63 is 1"), "{error}");
}

#[test]
fn codec_unsigned_id_is_a_negative_signed_one() {
    let codec = codec_of("unsigned,time:42,worker:10,seq:12");
    let parts = IdParts {
        tick: 1 << 41,
        worker: 1,
        ..IdParts::default()
    };
    let signed = codec.encode(&parts).unwrap() as i64;
    assert_eq!(signed, i64::MIN + 4_096);
    assert_eq!(codec.decode(signed as u64), Ok(parts));
}

#[test]
fn codec_first_random_field_is_the_highest() {
    let codec = codec_of("rand:3,time:20,rand:2,seq:1");
    let parts = IdParts {
        rand: 0b10101,
        ..IdParts::default()
    };
    let id = 0b101 << 23 | 0b01 << 1;
    assert_eq!(codec.encode(&parts), Ok(id));
    assert_eq!(codec.decode(id), Ok(parts));
}

#[test]
fn codec_inverted_ids_fall_with_time() {
    let codec = codec_of("0:1,time~:41,worker:10,seq~:12");
    let id_at = |tick, seq| {
        let parts = IdParts {
            tick,
            seq,
            worker: 5,
            ..IdParts::default()
        };
        codec.encode(&parts).unwrap()
    };
    let ids = [
        id_at(0, 0),
        id_at(0, 1),
        id_at(0, 4_095),
        id_at(1, 0),
        id_at(9, 7),
    ];
    assert!(ids.is_sorted_by(|a, b| a > b), "{ids:?}");
    assert_eq!(codec.decode(ids[4]).unwrap().tick, 9);
    assert_eq!(codec.decode(ids[4]).unwrap().worker, 5);
}

/// Returns layouts of random fields in random order.
fn any_layout() -> impl Strategy<Value = IdLayout> {
    let fields = (
        any::<bool>(),
        prop_oneof![Just("time"), Just("time~")],
        20u32..=33,
        0u32..=5,
        0u32..=6,
        1u32..=3,
        0u32..=8,
        1u32..=4,
    );
    fields.prop_flat_map(|(is_unsigned, time, ticks, dc, worker, lane, seq, rand)| {
        let seq_name = if time == "time" { "seq" } else { "seq~" };
        let fields = vec![
            format!("{time}:{ticks}"),
            format!("{seq_name}:{seq}"),
            format!("dc:{dc}"),
            format!("worker:{worker}"),
            format!("lane:{lane}"),
            format!("rand:{rand}"),
            String::from("const:3=5"),
            String::from("rand:1"),
            String::from("0:1"),
        ];
        let fields = Just(fields).prop_shuffle();
        fields.prop_filter_map("more than 64 bits", move |fields| {
            let mut text = fields.join(",");
            if is_unsigned {
                text.insert_str(0, "unsigned,");
            }
            text.parse().ok()
        })
    })
}

proptest! {
    #[test]
    fn codec_encodes_what_it_decodes(layout in any_layout(), id: u64) {
        let codec = IdCodec::new(&layout);
        let id = id & !codec.fixed_mask | codec.fixed;
        let parts = codec.decode(id).unwrap();
        prop_assert_eq!(codec.encode(&parts), Ok(id));
    }

    #[test]
    fn codec_decodes_what_it_encodes(layout in any_layout(), bits: [u64; 6]) {
        let codec = IdCodec::new(&layout);
        let max = codec.max_parts();
        let parts = IdParts {
            tick: bits[0] & max.tick,
            dc: bits[1] as u32 & max.dc,
            worker: bits[2] as u32 & max.worker,
            lane: bits[3] as u32 & max.lane,
            seq: bits[4] as u32 & max.seq,
            rand: bits[5] & max.rand,
        };
        let id = codec.encode(&parts).unwrap();
        prop_assert_eq!(codec.decode(id), Ok(parts));
    }

    #[test]
    fn codec_rejects_what_does_not_fit(layout in any_layout(), part in 0usize..6, above: u32) {
        let codec = IdCodec::new(&layout);
        let mut parts = IdParts::default();
        let (name, _, max) = codec.named_parts(&parts)[part];
        let value = max + 1 + u64::from(above >> 8);
        match name {
            "tick" => parts.tick = value,
            "dc" => parts.dc = value as u32,
            "worker" => parts.worker = value as u32,
            "lane" => parts.lane = value as u32,
            "seq" => parts.seq = value as u32,
            _ => parts.rand = value,
        }
        let error = codec.encode(&parts).unwrap_err().to_string();
        let expected = format!("{name} {value} does not fit the layout");
        prop_assert!(error.starts_with(&expected), "{}", error);
    }

    #[test]
    fn codec_ids_rise_with_tick_and_seq(a in (0u64..9, 0u32..9), b in (0u64..9, 0u32..9)) {
        let codec = codec_of("0:1,time:39,lane:2,worker:10,seq:12");
        let id_of = |(tick, seq)| codec.encode(&IdParts { tick, seq, ..IdParts::default() });
        prop_assert_eq!(id_of(a).unwrap().cmp(&id_of(b).unwrap()), a.cmp(&b));
    }
}
