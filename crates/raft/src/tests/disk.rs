//! A disk whose power can be taken away: ext4 on a loop device. Needs root.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

pub(super) fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let out = Process::new(program).args(args).output();
    let out = out.map_err(|e| format!("{program}: {e}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned()),
        false => Err(format!(
            "{program} {args:?}: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        )),
    }
}

/// An ext4 file system on a loop device; gone when dropped.
pub(super) struct Disk {
    device: String,
    pub(super) mount: PathBuf,
    mounted: bool,
}

impl Disk {
    pub(super) fn make(dir: &Path) -> Result<Disk, String> {
        let image = dir.join("disk.img");
        let image = image.to_str().unwrap();
        run("truncate", &["-s", "192M", image])?;
        run("mkfs.ext4", &["-q", "-F", image])?;
        let device = run("losetup", &["-f", "--show", image])?;
        let mut disk = Disk {
            device,
            mount: dir.join("mount"),
            mounted: false,
        };
        std::fs::create_dir(&disk.mount).map_err(|e| e.to_string())?;
        disk.mount()?;
        Ok(disk)
    }

    pub(super) fn path(&self) -> &str {
        self.mount.to_str().unwrap()
    }

    pub(super) fn mount(&mut self) -> Result<(), String> {
        run("mount", &["-t", "ext4", &self.device, self.path()])?;
        self.mounted = true;
        Ok(())
    }

    pub(super) fn unmount(&mut self) -> Result<(), String> {
        // A process being started by another test may hold a file for a moment.
        let mut tries = 0;
        while let Err(e) = run("umount", &[self.path()]) {
            tries += 1;
            if tries == 100 {
                return Err(e);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        self.mounted = false;
        Ok(())
    }

    /// EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: what has not reached the device is lost.
    pub(super) fn cut(&self) -> Result<(), String> {
        let code = "import fcntl,os,struct,sys\n\
                    fd=os.open(sys.argv[1],os.O_RDONLY)\n\
                    fcntl.ioctl(fd,0x8004587d,struct.pack('I',2))";
        run("python3", &["-c", code, self.path()]).map(drop)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = run("umount", &["-l", self.path()]);
        }
        let _ = run("losetup", &["-d", &self.device]);
    }
}

/// Whether the test cannot run here; says so past the test harness's capture.
pub(super) fn skipped() -> bool {
    let tools = [
        ("python3", "--version"),
        ("losetup", "-f"),
        ("mkfs.ext4", "-V"),
    ];
    let why = if !rustix::process::geteuid().is_root() {
        "needs root"
    } else if tools.iter().any(|(tool, arg)| run(tool, &[arg]).is_err()) {
        "needs python3, losetup with a free loop device, and mkfs.ext4"
    } else {
        return false;
    };
    let line = format!("\n!!! power cut test skipped: {why} !!!\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    true
}
