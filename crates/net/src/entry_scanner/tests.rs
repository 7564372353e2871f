use prost::Message;
use tonic::Code;

use super::*;
use seqsvr_proto::v1::{
    CurrentManyRequest, NextManyRequest, NextRequest, PipeRequest, next_request, pipe_request,
};

/// Returns a gRPC message: its prefix and its body.
fn encode_message(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[0], &length[..], body].concat()
}

/// Reads a request in pieces of `piece` bytes. Returns how many bytes were read until it was
/// rejected; None: it was not rejected.
fn find_rejection(frames: bool, bytes: &[u8], piece: usize) -> Option<(usize, Status)> {
    let mut entries = EntryScanner::new(frames);
    let mut read = 0;
    for piece in bytes.chunks(piece) {
        read += piece.len();
        if let Err(status) = entries.read(piece) {
            return Some((read, status));
        }
    }
    assert!(
        matches!(entries.at, At::Prefix(0, 0) | At::Rejected),
        "the end was missed"
    );
    None
}

fn request_with_all_columns() -> NextManyRequest {
    NextManyRequest {
        namespace: "a".repeat(64),
        uids: vec![u64::MAX; ITEMS_MAX],
        counts: vec![u32::MAX; ITEMS_MAX],
        floors: vec![u64::MAX; ITEMS_MAX],
        epochs: vec![u64::MAX; ITEMS_MAX],
        strict: true,
        table_version: u64::MAX,
        forwarded: true,
        ..NextManyRequest::default()
    }
}

fn request_with_keys(n: usize, bytes: usize) -> NextManyRequest {
    NextManyRequest {
        keys: vec![vec![7; bytes].into(); n],
        ..NextManyRequest::default()
    }
}

fn to_pipe_frame(next: NextManyRequest) -> PipeRequest {
    PipeRequest {
        id: u64::MAX,
        timeout_ms: u32::MAX,
        operation: Some(pipe_request::Operation::Next(next)),
    }
}

#[test]
fn largest_requests_pass_in_any_pieces() {
    let current = CurrentManyRequest {
        uids: vec![u64::MAX; ITEMS_MAX],
        epochs: vec![u64::MAX; ITEMS_MAX],
        ..CurrentManyRequest::default()
    };
    let one = NextRequest {
        namespace: "n".into(),
        key_kind: Some(next_request::KeyKind::Key(vec![b'k'; 128].into())),
        floor: Some(1),
        ..NextRequest::default()
    };
    let mut requests = vec![
        request_with_all_columns().encode_to_vec(),
        current.encode_to_vec(),
    ];
    requests.extend(
        [
            request_with_keys(ITEMS_MAX, 128),
            request_with_keys(ITEMS_MAX, 0),
        ]
        .map(|r| r.encode_to_vec()),
    );
    requests.extend([one.encode_to_vec(), Vec::new()]);
    let all: Vec<u8> = requests
        .iter()
        .flat_map(|body| encode_message(body))
        .collect();
    let operation = pipe_request::Operation::Current(current);
    let frames = [
        to_pipe_frame(request_with_all_columns()),
        to_pipe_frame(request_with_keys(ITEMS_MAX, 128)),
        to_pipe_frame(request_with_keys(2, 0)),
        to_pipe_frame(NextManyRequest::default()),
        PipeRequest {
            operation: Some(operation),
            ..PipeRequest::default()
        },
    ];
    let frames = frames
        .map(|frame| encode_message(&frame.encode_to_vec()))
        .concat();
    for piece in [1, 2, 5, 7, 1_000, 16_384, usize::MAX] {
        for (is_pipe, bytes) in [(false, &all), (true, &frames)] {
            if let Some((at, status)) = find_rejection(is_pipe, bytes, piece) {
                panic!("rejected at {at} in pieces of {piece}: {status:?}");
            }
        }
    }
}

#[test]
fn oversized_request_is_rejected_by_its_first_bytes() {
    let crowd = |next: NextManyRequest| {
        [
            (false, encode_message(&next.encode_to_vec())),
            (true, encode_message(&to_pipe_frame(next).encode_to_vec())),
        ]
    };
    let uids = |n| NextManyRequest {
        uids: vec![1; n],
        ..NextManyRequest::default()
    };
    let counts = NextManyRequest {
        counts: vec![1; 2_000_000],
        ..NextManyRequest::default()
    };
    let named = NextManyRequest {
        namespace: "x".repeat(2_000_000),
        ..NextManyRequest::default()
    };
    for request in [uids(500_000), uids(40_001), counts, named] {
        for (is_pipe, bytes) in crowd(request) {
            let (at, status) = find_rejection(is_pipe, &bytes, 1).expect("it is rejected");
            assert!(at < 100, "after {at}");
            assert_eq!(status.code(), Code::InvalidArgument);
            let fault = RpcError::from_status(&status);
            assert_eq!(fault.reason(), Reason::LimitExceeded, "{fault}");
        }
    }
    // The error of a unary call names the number of items.
    let (at, status) =
        find_rejection(false, &encode_message(&uids(10_001).encode_to_vec()), 1).unwrap();
    assert!(at < 100 && status.message().contains("at most 10000 items, not 10001"));
    assert!(
        find_rejection(
            true,
            &encode_message(&to_pipe_frame(uids(10_001)).encode_to_vec()),
            1
        )
        .is_none()
    );
    // Each is an entry of its own.
    for (n, bytes, most) in [(1_000_000, 0, 41_000), (20_001, 100, 2_100_000)] {
        for (is_pipe, sent) in crowd(request_with_keys(n, bytes)) {
            let (at, _) = find_rejection(is_pipe, &sent, 1_024).expect("it is rejected");
            assert!(at < most, "after {at}");
        }
    }
    // Not packed, and repeated requests of a frame: all of them count for one message.
    let one_by_one = encode_message(&[0x11, 1, 0, 0, 0, 0, 0, 0, 0].repeat(ITEMS_MAX * 2 + 1));
    assert!(find_rejection(false, &one_by_one, 999).is_some());
    for again in [
        &[0x1a, 2, 0x1a, 0][..],
        &[0x1a, 0],
        &[0x22, 3, 0x18, 1, 0x18],
    ] {
        let sent = encode_message(&again.repeat(ITEMS_MAX * 2 + 1));
        assert!(find_rejection(true, &sent, 999).is_some(), "{again:?}");
    }
}

#[test]
fn entry_count_restarts_with_each_message() {
    for _ in 0..3 {
        let sent = encode_message(&request_with_keys(ITEMS_MAX, 1).encode_to_vec()).repeat(5);
        assert!(find_rejection(false, &sent, 4_096).is_none());
    }
}

#[test]
fn malformed_message_is_rejected_with_a_reason() {
    for bad in [
        // A length above what is left; a group; a number without an end; one that is too long.
        &[0x12, 9, 1, 2][..],
        &[0x13],
        &[0x08, 0x80],
        &[
            0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
        ],
        // Eight bytes of which three are there.
        &[0x11, 1, 2, 3],
    ] {
        for piece in [1, 3, 100] {
            let rejection =
                find_rejection(false, &[&encode_message(bad)[..], &[0; 9]].concat(), piece);
            let (_, status) = rejection.unwrap_or_else(|| panic!("{bad:?} passed"));
            assert_eq!(RpcError::from_status(&status).reason(), Reason::Invalid);
        }
    }
}

#[test]
fn compressed_or_long_message_is_left_to_the_decoder() {
    let compressed = [&[1][..], &[0, 0, 0, 1, 0xff]].concat();
    let long = [&[0][..], &(5u32 << 20).to_be_bytes(), &[0x13; 100]].concat();
    for sent in [compressed, long] {
        assert!(find_rejection(false, &sent, 2).is_none());
    }
}

/// A request ends where the decoder ends it: a field that continues beyond it is rejected, not read
/// as something else.
#[test]
fn request_does_not_end_within_a_field() {
    let crossing: [&[u8]; 5] = [
        // A tag of two bytes, a value, a length, eight bytes, a word.
        &[0x1a, 1, 0xa2, 0, 4, 1, 1, 1, 1],
        &[0x1a, 2, 0x38, 0x81, 0],
        &[0x1a, 2, 0x22, 0x81, 0, 1],
        &[0x1a, 3, 0x11, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0x1a, 3, 0x0a, 2, b'a', b'b'],
    ];
    for bytes in crossing {
        for piece in [1, 2, 100] {
            let rejection = find_rejection(true, &encode_message(bytes), piece);
            let (_, status) = rejection.unwrap_or_else(|| panic!("{bytes:x?} passed"));
            assert_eq!(RpcError::from_status(&status).reason(), Reason::Invalid);
        }
        PipeRequest::decode(bytes).expect_err("the decoder rejects it as well");
    }
}

/// Entries without a byte are entries.
#[test]
fn empty_entries_are_counted() {
    for field in [1u8, 2, 4, 5, 6, 10, 14] {
        let entries = [field << 3 | 2, 0].repeat(2 * ITEMS_MAX + 1);
        assert!(
            find_rejection(false, &encode_message(&entries), 4_096).is_some(),
            "{field}"
        );
    }
}

/// The count before decoding is at least what the message then takes (its columns, without their
/// room to grow), and the bytes it came in.
#[test]
fn message_memory_is_counted_before_decoding() {
    let few = |set: fn(&mut NextManyRequest)| {
        let mut request = NextManyRequest::default();
        set(&mut request);
        request
    };
    let requests = [
        request_with_all_columns(),
        request_with_keys(ITEMS_MAX, 128),
        request_with_keys(ITEMS_MAX * 2 - 1, 0),
        few(|r| r.uids = vec![0; ITEMS_MAX]),
        few(|r| r.counts = vec![1; 300_000]),
        few(|r| r.epochs = vec![1; 300_000]),
        few(|r| r.floors = vec![1; 30_000]),
    ];
    let unpacked = NextManyRequest::decode(&[0x30, 1].repeat(ITEMS_MAX)[..]).unwrap();
    assert_eq!(unpacked.epochs.len(), ITEMS_MAX);
    let encoded = requests.iter().map(|r| (r.clone(), r.encode_to_vec()));
    let encoded = encoded.chain([(unpacked, [0x30, 1].repeat(ITEMS_MAX))]);
    for (request, body) in encoded {
        let keys = request.keys.iter().map(|key| size_of_val(key) + key.len());
        let takes = size_of_val(&request.uids[..])
            + size_of_val(&request.counts[..])
            + size_of_val(&request.floors[..])
            + size_of_val(&request.epochs[..])
            + keys.sum::<usize>();
        let framed = PipeRequest {
            operation: Some(pipe_request::Operation::Next(request)),
            ..PipeRequest::default()
        };
        for (is_pipe, body) in [(false, body), (true, framed.encode_to_vec())] {
            let mut entries = EntryScanner::new(is_pipe);
            let bytes = encode_message(&body);
            let counted: usize = bytes
                .chunks(1_000)
                .map(|piece| piece.len() + entries.read(piece).unwrap())
                .sum();
            assert!(counted >= takes, "{counted} of {takes}");
            // The bytes of a correct caller do not fill a connection too early.
            assert!(counted < 9 * bytes.len() + 32 * 2 * ITEMS_MAX);
        }
    }
}
