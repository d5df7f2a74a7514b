"""One contract a draft kind: what has to hold before a draft may advise a target."""
