"""What a change to manifests, profiles, plans and trust files means, for those who review it."""
