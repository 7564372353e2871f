//! Data directories: damaged, foreign, copied or older files, and disks that fail.

mod copied_dirs;
mod damaged_files;
mod disk_at_start;
mod disk_while_running;
mod fsync_faults;
mod older_copies;
mod swapped_dirs;
