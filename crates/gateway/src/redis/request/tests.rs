use proptest::prelude::*;

use super::*;

type Words = Vec<Vec<u8>>;

/// Returns all requests of these bytes, which arrive in pieces of this size, taken a few at a time.
fn read(bytes: &[u8], piece: usize) -> (Vec<Words>, Result<(), Broken>) {
    let mut requests = Requests::default();
    let (mut all, mut there) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        there.extend(piece);
        loop {
            let outcome = requests.read(&mut there, 3);
            for i in 0..requests.len() {
                let words = requests.words(i, &there);
                all.push(words.map(<[u8]>::to_vec).collect());
            }
            let taken = requests.len();
            there.drain(..requests.end());
            requests.forget();
            if outcome.is_err() {
                return (all, outcome);
            }
            if taken < 3 {
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
fn requests_are_read_in_whatever_pieces_they_come() {
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
        let (all, outcome) = read(bytes, piece);
        assert_eq!((&all, outcome), (&expected, Ok(())), "pieces of {piece}");
    }
}

#[test]
fn what_is_no_request_is_told_apart() {
    let long = [b"GET ".as_slice(), &vec![b'a'; LINE_MAX]].concat();
    let word = [b"$16384\r\n".as_slice(), &vec![b'a'; ARG_MAX], b"\r\n"].concat();
    let many = [b"get".as_slice(), &b" a".repeat(ARGS_MAX), b"\n"].concat();
    let large = [b"*1000\r\n".as_slice(), &word.repeat(130)].concat();
    for (bytes, broken) in [
        (&b"*x\r\n"[..], Broken::Count),
        (b"*\r\n", Broken::Count),
        (b"*10002\r\n", Broken::Count),
        (b"*99999999999999999999\r\n", Broken::Count),
        (b"*1\r\n:1\r\n", Broken::NotABulk(b':')),
        (b"*1\r\n$-1\r\n", Broken::Length),
        (b"*1\r\n$16385\r\n", Broken::Length),
        (b"*000000000000000000000000000001\r\n", Broken::LongNumber),
        (b"get \"a\n", Broken::Quotes),
        (b"get 'a'b\n", Broken::Quotes),
        (b"get \"\\x4\"\n", Broken::Quotes),
        (&long, Broken::LongLine),
        (&large, Broken::LongRequest),
        (&many, Broken::Count),
    ] {
        // The requests before it are answered.
        let after = [b"PING\r\n", bytes].concat();
        for piece in [1, 3, 1_000, after.len()] {
            let expected = (vec![words(&["PING"])], Err(broken.clone()));
            assert_eq!(read(&after, piece), expected, "{broken:?}");
        }
    }
}

proptest! {
    /// Any bytes, in pieces of any size: the same requests, and no panic.
    #[test]
    fn pieces_make_no_difference(
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
        prop_assert_eq!(read(&bytes, piece), read(&bytes, usize::MAX));
    }
}
