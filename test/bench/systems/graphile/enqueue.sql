@ADD@;
