//! Takes numbers of seqsvr with the SDK, which finds the owner of each key, merges concurrent
//! requests and retries where that helps.
//!
//! ```sh
//! cargo run -p seqsvr-client --example sequence -- 127.0.0.1:7700 alice
//! ```

use std::time::Duration;

use seqsvr_client::{Client, Error, Key, NextItem, Options};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7700".to_owned());
    let name = args.next().unwrap_or_else(|| "alice".to_owned());

    // One client for the whole process; clones share its connections and routing table. Give it the
    // addresses of several AllocSvrs. The client retries a call until the deadline: a number that
    // an unanswered try may have taken is skipped, never given twice.
    let mut options = Options::new([address]);
    options.deadline = Duration::from_secs(5);
    let client = Client::new(options)?;
    let key = Key::parse(&name);

    // The next number of one key. "" is the namespace `default` for a uid (`Key::from(42)`), `keys`
    // for other keys.
    println!("next {}", client.next("", key.clone(), 1).await?.first);

    // Many keys in one call: one number, five and one. Each item ends with an answer or an error of
    // its own.
    let items = [("a", 1), ("b", 5), ("c", 1)].map(|(part, count)| NextItem {
        count,
        ..NextItem::new(format!("{name}/{part}"))
    });
    for (item, taken) in items.iter().zip(client.next_many("", &items).await) {
        match taken {
            Ok(taken) => println!("many {} {} to {}", item.key, taken.first, taken.last),
            Err(error) => println!("many {} {error}", item.key),
        }
    }

    // The last number given out. This call takes none.
    println!("current {}", client.current("", key.clone()).await?.value);

    // Every later number is above 1000.
    let raised = client.raise_to("", key.clone(), 1_000, false).await?.value;
    let next = client.next("", key.clone(), 1).await?.first;
    println!("raised to {raised} next {next}");

    // An error has a code, a text that says what to do, and a reason on which a program can rely.
    if let Err(error) = client.next("nowhere", key, 1).await {
        let reason = error.reason.as_str_name().trim_start_matches("REASON_");
        println!("refused {reason} {:?} {error}", error.code);
    }
    Ok(())
}
