-- Deliveries wait while these are made: about 15 seconds for 10 million.
create index deliveries_of_event on deliveries (event_id);
create index deliveries_of_licence on deliveries (licence_id, id) where licence_id is not null;
