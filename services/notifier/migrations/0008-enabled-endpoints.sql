-- Those that events go to and that a quota counts, however many have been disabled.
create index endpoints_enabled on endpoints (application_id) where status = 'enabled';
