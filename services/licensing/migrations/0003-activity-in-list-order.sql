-- Licences seen since a time, newest first: the walk in list order tells those seen too long ago from the index alone,
-- some 50 ns each. `licence_activity_latest` finds the few that were seen lately. A call-home writes one entry more.
create index licence_activity_newest on licence_activity (application_id, licence_id, last_seen_at);
