//! `seqsvr id new`.

mod layout_ids;
mod worker_number;

use std::iter;
use std::time::Duration;

use anyhow::bail;
use seqsvr_ids::presets::find_preset;
use seqsvr_ids::stamp::{StampForm, StampMaker};
use seqsvr_ids::text::IdForm;
use seqsvr_ids::uuids::{GregorianUuids, Uuid, UuidV7Generator, make_v4, make_v8, parse_namespace};

use super::now;
use crate::cli::NewIdArgs;
use crate::output::exit_code::BadInput;
use crate::output::{log, stdout};
use layout_ids::LayoutIds;

/// Random digits of a stamp, as in the founding text.
const STAMP_DIGITS: u32 = 4;
/// Preset of the ids in a `uuid8`.
const V8_PRESET: &str = "snowflake";

/// Every kind that is no preset.
const KINDS: [&str; 10] = [
    "uuid1", "uuid2", "uuid3", "uuid4", "uuid5", "uuid6", "uuid7", "uuid8", "guid", "stamp",
];

/// Makes the text of the next id.
type IdSource = Box<dyn FnMut() -> anyhow::Result<String>>;

/// Prints ids that need no server.
pub(crate) fn run(args: &NewIdArgs) -> anyhow::Result<()> {
    check_flags(args)?;
    let ids = iter::repeat_with(id_source(args)?);
    stdout::print_lines(ids.take(args.count as usize))
}

/// Rejects flags that mean nothing for the kind.
fn check_flags(args: &NewIdArgs) -> anyhow::Result<()> {
    let kind = &*args.kind;
    let is_named = matches!(kind, "uuid3" | "uuid5");
    let is_preset = !KINDS.contains(&kind);
    if is_preset && let Err(error) = find_preset(kind) {
        let kinds = KINDS.join(", ");
        bail!(bad_input(format!(
            "{kind:?} is no kind: it is none of {kinds}, and {error}"
        )));
    }
    let has_worker = is_preset || kind == "uuid8";
    let flags = [
        ("NAMESPACE", args.namespace.is_some(), is_named),
        ("--count", args.count > 1, !is_named),
        ("--worker", args.worker.is_some(), has_worker),
        ("--worker-from", args.worker_from.is_some(), has_worker),
        ("--dc", args.dc.is_some(), has_worker),
        ("--policy", args.policy.is_some(), has_worker),
        ("--epoch", args.epoch.is_some(), is_preset),
        ("--form", args.form.is_some(), is_preset),
        ("--digits", args.digits.is_some(), kind == "stamp"),
        ("--falling", args.falling, kind == "stamp"),
    ];
    for (flag, is_given, has_use) in flags {
        if is_given && !has_use {
            bail!(bad_input(format!(
                "{flag} has no meaning for {kind}: `seqsvr id new --help` lists what each kind \
                 takes; leave it out"
            )));
        }
    }
    Ok(())
}

/// Returns what makes the ids of the kind.
fn id_source(args: &NewIdArgs) -> anyhow::Result<IdSource> {
    Ok(match &*args.kind {
        "uuid1" => gregorian_source(GregorianUuids::make_v1),
        "uuid2" => bail!(bad_input(
            "uuid2 is not made: it tells the id of a user and repeats within seven minutes; use \
             uuid4 or uuid7"
        )),
        "uuid3" => named_source(args, Uuid::new_v3)?,
        "uuid4" => source_of(|| make_v4(rand::random::<u64>)),
        "uuid5" => named_source(args, Uuid::new_v5)?,
        "uuid6" => gregorian_source(GregorianUuids::make_v6),
        "uuid7" => {
            let uuids = UuidV7Generator::default();
            source_of(move || uuids.make(now(), rand::random::<u64>))
        }
        "uuid8" => {
            let mut ids = LayoutIds::new(args, find_preset(V8_PRESET)?)?;
            Box::new(move || Ok(make_v8(0, ids.next()?).to_string()))
        }
        "guid" => source_of(|| format!("{:X}", make_v4(rand::random::<u64>).braced())),
        "stamp" => stamp_source(args)?,
        preset => {
            let mut ids = LayoutIds::new(args, find_preset(preset)?)?;
            let form = args.form.unwrap_or(IdForm::Decimal);
            Box::new(move || Ok(form.format(ids.next()?)))
        }
    })
}

fn source_of<T: ToString>(mut make: impl FnMut() -> T + 'static) -> IdSource {
    Box::new(move || Ok(make().to_string()))
}

fn gregorian_source(make: fn(&GregorianUuids, Duration) -> Uuid) -> IdSource {
    let uuids = GregorianUuids::new(rand::random::<u64>);
    source_of(move || make(&uuids, now()))
}

fn named_source(args: &NewIdArgs, make: fn(&Uuid, &[u8]) -> Uuid) -> anyhow::Result<IdSource> {
    let (Some(namespace), Some(name)) = (&args.namespace, &args.name) else {
        bail!(BadInput(format!(
            "{0} needs a namespace and a name: they are all that it is made of; write for example \
             `seqsvr id new {0} dns example.com`",
            args.kind
        )));
    };
    let namespace = parse_namespace(namespace)?;
    let uuid = make(&namespace, name.as_bytes());
    Ok(source_of(move || uuid))
}

fn stamp_source(args: &NewIdArgs) -> anyhow::Result<IdSource> {
    let form = StampForm::new(args.digits.unwrap_or(STAMP_DIGITS), args.falling)?;
    log::print_warning(format_args!(
        "another process may make the same stamp: a share of {} if 100 cores make 2 in a tick of 100 ns; \
         insert stamps under a unique key, and make another if one is taken",
        form.collision_share(200.0)
    ));
    let stamps = StampMaker::new(form);
    Ok(source_of(move || stamps.make(now(), rand::random::<u64>)))
}

fn bad_input(error: impl ToString) -> BadInput {
    BadInput(error.to_string())
}
