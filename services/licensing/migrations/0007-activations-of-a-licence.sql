-- A licence's activations, newest first.
create index activations_newest on activations (licence_id, id);
