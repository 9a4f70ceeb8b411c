"""The home folder inside an enclosure. Apart, because `enclose` must not import `shell`."""

HOME = "/run/home"
