//! Generates the gRPC types from `proto/` with protox, so that no protoc is needed.

use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join("seqsvr/v1"))? {
        files.push(Path::new("seqsvr/v1").join(entry?.file_name()));
    }
    files.sort();
    let set = protox::compile(files, [root])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptor.bin"), set.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".seqsvr.v1")
        .codec_path("crate::codec::MessageCodec")
        .compile_fds(set)?;
    Ok(())
}
