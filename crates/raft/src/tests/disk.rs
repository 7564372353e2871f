//! A disk that can fail, be full, be read-only or lose its power: ext4 on a loop device. Needs
//! root.
//!
//! This crate's tests from outside, and the scenarios on the binary, use it as well.

#![allow(dead_code, reason = "each of its users needs a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};

pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, String> {
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

/// An ext4 file system on a loop device; removed when dropped.
pub(crate) struct Disk {
    device: String,
    pub(crate) mount: PathBuf,
    mounted: bool,
}

impl Disk {
    /// Mounts a new file system at `dir/mount`; its file is beside it.
    pub(crate) fn make(dir: &Path) -> Result<Disk, String> {
        Disk::sized(dir, "192M")
    }

    /// Mounts a new file system of this size, in the syntax of `truncate`.
    pub(crate) fn sized(dir: &Path, size: &str) -> Result<Disk, String> {
        std::fs::create_dir_all(dir).map_err(|e| e.to_string())?;
        let image = dir.join("disk.img");
        let image = image.to_str().unwrap();
        run("truncate", &["-s", size, image])?;
        // No blocks are reserved for root: full means full.
        run("mkfs.ext4", &["-q", "-F", "-m", "0", image])?;
        Disk::of_image(image, dir.join("mount"))
    }

    /// Mounts the file system in a file at `mount`, which it makes.
    pub(crate) fn of_image(image: &str, mount: PathBuf) -> Result<Disk, String> {
        let device = run("losetup", &["-f", "--show", image])?;
        let mut disk = Disk {
            device,
            mount,
            mounted: false,
        };
        std::fs::create_dir(&disk.mount).map_err(|e| e.to_string())?;
        disk.mount()?;
        Ok(disk)
    }

    pub(crate) fn path(&self) -> &str {
        self.mount.to_str().unwrap()
    }

    pub(crate) fn mount(&mut self) -> Result<(), String> {
        run("mount", &["-t", "ext4", &self.device, self.path()])?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts and mounts again, as after a restart of the machine.
    pub(crate) fn again(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    pub(crate) fn unmount(&mut self) -> Result<(), String> {
        // A process that another test is starting may hold a file for a moment.
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

    /// Fills the disk to the last byte; returns the file to delete to free it again.
    pub(crate) fn fill(&self) -> PathBuf {
        let ballast = self.mount.join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        for size in [1 << 20, 4 << 10, 1] {
            let block = vec![7; size];
            while file.write_all(&block).is_ok() {}
            file.sync_all().unwrap();
        }
        ballast
    }

    /// Does what ext4 does by itself on a disk that fails: every later write is rejected as
    /// read-only, also to open files. Unmount and mount again to repair it.
    pub(crate) fn turn_read_only(&self) -> Result<(), String> {
        run("mount", &["-o", "remount,abort", self.path()]).map(drop)
    }

    /// Mounts it read-only (`ro`) or writable (`rw`); no file may be open for writing.
    pub(crate) fn remount(&self, how: &str) -> Result<(), String> {
        run("mount", &["-o", &format!("remount,{how}"), self.path()]).map(drop)
    }

    /// Calls EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: data that has not reached the
    /// device is lost.
    pub(crate) fn cut(&self) -> Result<(), String> {
        let mut cut = self.arm()?;
        cut.fire()?;
        cut.finish()
    }

    /// Prepares a cut that comes within a fraction of a millisecond after it is fired.
    pub(crate) fn arm(&self) -> Result<ArmedCut, String> {
        let code = "import fcntl,os,struct,sys\n\
                    fd=os.open(sys.argv[1],os.O_RDONLY)\n\
                    print('armed',flush=True)\n\
                    sys.stdin.readline()\n\
                    fcntl.ioctl(fd,0x8004587d,struct.pack('I',2))";
        let mut child = Process::new("python3")
            .args(["-c", code, self.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("python3: {e}"))?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no output of python3")?;
        let read = BufReader::new(out).read_line(&mut line);
        match read.map_err(|e| e.to_string())? {
            0 => Err(String::from("python3 cannot open the mount")),
            _ => Ok(ArmedCut(child)),
        }
    }
}

/// A power cut that waits to be fired.
pub(crate) struct ArmedCut(Child);

impl ArmedCut {
    /// Cuts the power; does not wait until it is off.
    pub(crate) fn fire(&mut self) -> Result<(), String> {
        let mut stdin = self.0.stdin.take().ok_or("it was fired before")?;
        stdin.write_all(b"\n").map_err(|e| e.to_string())
    }

    /// Waits until the power is off.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let ended = self.0.wait().map_err(|e| e.to_string())?;
        match ended.success() {
            true => Ok(()),
            false => Err(String::from("the power was not cut")),
        }
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

/// Returns whether the test cannot run here; prints that past the test harness's capture.
pub(crate) fn skipped() -> bool {
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
    let line = format!("\n!!! test on a loop device skipped: {why} !!!\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    true
}
