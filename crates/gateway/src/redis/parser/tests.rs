//! The parser returns the same requests and errors for all sizes of the pieces in which bytes
//! arrive. Tests with examples and with random bytes; they use no network.

use proptest::prelude::*;

use super::*;

type Words = Vec<Vec<u8>>;

/// Returns all requests of these bytes, which arrive in pieces of this size; at most three are
/// parsed at a time.
fn parse_in_pieces(bytes: &[u8], piece: usize) -> (Vec<Words>, Result<(), ProtocolError>) {
    let mut parser = RequestParser::default();
    let (mut all, mut arrived) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        arrived.extend(piece);
        loop {
            let outcome = parser.parse(&mut arrived, 3);
            for i in 0..parser.request_count() {
                let words = parser.request_words(i, &arrived);
                all.push(words.map(<[u8]>::to_vec).collect());
            }
            let complete = parser.request_count();
            arrived.drain(..parser.complete_bytes());
            parser.discard_complete();
            if outcome.is_err() {
                return (all, outcome);
            }
            if complete < 3 {
                break;
            }
        }
    }
    (all, Ok(()))
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn parser_reads_the_same_requests_from_pieces_of_any_size() {
    let bytes = b"*2\r\n$4\r\nINCR\r\n$7\r\na\r\nb\0\xff$\r\n*1\r\n$4\r\nPING\r\nPING\r\n  get  \"a \\x41\\n\\\"\" 'it\\'s'\n*0\r\n*-1\r\n\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n";
    let odd = vec![b"INCR".to_vec(), b"a\r\nb\0\xff$".to_vec()];
    let expected = vec![
        odd,
        words(&["PING"]),
        words(&["PING"]),
        words(&["get", "a A\n\"", "it's"]),
        vec![],
        vec![],
        vec![],
        words(&["GET", ""]),
    ];
    for piece in 1..=bytes.len() {
        let (all, outcome) = parse_in_pieces(bytes, piece);
        assert_eq!((&all, outcome), (&expected, Ok(())), "pieces of {piece}");
    }
}

#[test]
fn parser_rejects_malformed_requests_with_their_error() {
    let long = [b"GET ".as_slice(), &vec![b'a'; LINE_BYTES_MAX]].concat();
    let word = [
        b"$16384\r\n".as_slice(),
        &vec![b'a'; WORD_BYTES_MAX],
        b"\r\n",
    ]
    .concat();
    let many = [b"get".as_slice(), &b" a".repeat(WORDS_MAX), b"\n"].concat();
    let large = [b"*1000\r\n".as_slice(), &word.repeat(130)].concat();
    for (bytes, error) in [
        (&b"*x\r\n"[..], ProtocolError::InvalidCount),
        (b"*\r\n", ProtocolError::InvalidCount),
        (b"*10002\r\n", ProtocolError::InvalidCount),
        (b"*99999999999999999999\r\n", ProtocolError::InvalidCount),
        (b"*1\r\n:1\r\n", ProtocolError::ExpectedBulk(b':')),
        (b"*1\r\n$-1\r\n", ProtocolError::InvalidLength),
        (b"*1\r\n$16385\r\n", ProtocolError::InvalidLength),
        (
            b"*000000000000000000000000000001\r\n",
            ProtocolError::NumberTooLong,
        ),
        (b"get \"a\n", ProtocolError::UnbalancedQuotes),
        (b"get 'a'b\n", ProtocolError::UnbalancedQuotes),
        (b"get \"\\x4\"\n", ProtocolError::UnbalancedQuotes),
        (&long, ProtocolError::LineTooLong),
        (&large, ProtocolError::RequestTooLong),
        (&many, ProtocolError::InvalidCount),
    ] {
        // The requests before it are answered.
        let after = [b"PING\r\n", bytes].concat();
        for piece in [1, 3, 1_000, after.len()] {
            let expected = (vec![words(&["PING"])], Err(error.clone()));
            assert_eq!(parse_in_pieces(&after, piece), expected, "{error:?}");
        }
    }
}

proptest! {
    /// Any bytes, in pieces of any size: the same requests, and no panic.
    #[test]
    fn parser_result_does_not_depend_on_piece_size(
        parts in prop::collection::vec(
            prop_oneof![
                Just(b"*".to_vec()), Just(b"$".to_vec()), Just(b"\r\n".to_vec()), Just(b"\n".to_vec()),
                Just(b"*2\r\n$4\r\nINCR\r\n$1\r\n".to_vec()), Just(b"\"".to_vec()), Just(b"'".to_vec()),
                Just(b"\\x".to_vec()), Just(b"get a b".to_vec()), Just(b"$3\r\nabc\r\n".to_vec()),
                "[0-9]{1,3}\r\n".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..4),
            ],
            0..40,
        ),
        piece in 1usize..9,
    ) {
        let bytes = parts.concat();
        prop_assert_eq!(parse_in_pieces(&bytes, piece), parse_in_pieces(&bytes, usize::MAX));
    }
}
