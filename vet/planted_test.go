package vet_test

// planted are mistakes in the examples, of a few lines each, made by somebody who had not read the analyzers: what people do, not what is easy to
// find.
func planted() []mutant {
	return []mutant{
		// the creation and deletion of servers goes on after the leadership, and the stop, have ended.
		{
			"leadercontext",
			"examples/sites/main.go",
			"have, err := children.Apply(ctx, site.Ref(), want)",
			"have, err := children.Apply(context.WithoutCancel(ctx), site.Ref(), want)",
		},
		// a TODO that was left in: the deletion carries no term and cannot be canceled.
		{
			"leadercontext",
			"examples/07-owner/main.go",
			"_, err := owner.Cascade(ctx, sites, key, children)",
			"_, err := owner.Cascade(context.TODO(), sites, key, children)",
		},
		// meant to record the failure even when the reconcile has timed out; writes after the end of the leadership too.
		{
			"leadercontext",
			"examples/effective/failure/right.go",
			"_, failed := certs.UpdateStatus(ctx, cert)",
			"_, failed := certs.UpdateStatus(context.WithoutCancel(ctx), cert)",
		},
		// the call of the load balancer is not canceled when the leadership ends.
		{
			"leadercontext",
			"examples/effective/leader/right.go",
			"balancer.RouteAs(ctx, leads.Term(),",
			"balancer.RouteAs(context.Background(), leads.Term(),",
		},
		// the deletion has no term of the leader; the context is in a variable first.
		{
			"leadercontext",
			"examples/effective/synced/right.go",
			"_, err := servers.Delete(ctx, key, store.IfUID(server.UID))",
			"background := context.Background()\n\t\t_, err := servers.Delete(background, key, store.IfUID(server.UID))",
		},
		// a helper of the reconciles detaches the write from the context of the leader.
		{
			"leadercontext",
			"examples/effective/stale/wrong.go",
			"_, err := pods.UpdateStatus(ctx, pod)",
			"_, err := pods.UpdateStatus(context.WithoutCancel(ctx), pod)",
		},
		// Apply runs within the reconcile, and its call of the DNS survives the leadership.
		{
			"leadercontext",
			"examples/effective/deletion/right.go",
			"return dns.Put(ctx, site.Key, site.Value.Address)",
			"return dns.Put(context.TODO(), site.Key, site.Value.Address)",
		},
		// the request of a reconcile, two calls below it, does not end with the leadership.
		{
			"leadercontext",
			"examples/sites/world.go",
			"req, err := http.NewRequestWithContext(ctx, method,",
			"req, err := http.NewRequestWithContext(context.Background(), method,",
		},
		// a process is started although this copy may lead no more (and the Permit check sees no leadership).
		{
			"leadercontext",
			"examples/webapp/orchestrator/deployments.go",
			"err := c.machine.Start(ctx, machine.Spec{",
			"err := c.machine.Start(context.Background(), machine.Spec{",
		},
		// the usual slip with a timeout of its own: the probe outlives the leadership.
		{
			"leadercontext",
			"examples/webapp/orchestrator/probes.go",
			"context.WithTimeout(ctx, c.timeout)",
			"context.WithTimeout(context.Background(), c.timeout)",
		},
		// the helper that writes every status detaches the write from the leadership.
		{
			"leadercontext",
			"examples/webapp/orchestrator/mirror.go",
			"store.PatchStatus(ctx, m, o.Key,",
			"store.PatchStatus(context.WithoutCancel(ctx), m, o.Key,",
		},
		// meant to write the status even during a stop; writes after the leadership has ended.
		{
			"leadercontext",
			"examples/webapp/orchestrator/services.go",
			"return result, c.writeStatus(ctx, s, status)",
			"return result, c.writeStatus(context.WithoutCancel(ctx), s, status)",
		},
		// meant not to lose the revision; writes after the leadership has ended. module: examples/tenants.
		{
			"leadercontext",
			"examples/tenants/resource.go",
			"_, err = r.objects.UpdateStatus(ctx, o)",
			"_, err = r.objects.UpdateStatus(context.WithoutCancel(ctx), o)",
		},
		// sorts the slice of an object that came out of an index, in place.
		{
			"cachewrite",
			"examples/03-cache/main.go",
			"for name := range x.All(value) {",
			"for name, m := range x.All(value) {\n\t\tslices.Sort(m.Tags)",
		},
		// changes an element of a slice that the cache shares with all readers, and that an index has read.
		{
			"cachewrite",
			"examples/03-cache/main.go",
			"theirs, _ := machines.Get(\"m1\")",
			"theirs, _ := machines.Get(\"m1\")\n\ttheirs.Tags[0] = \"cpu\"",
		},
		// the object is a copy, but its map of labels is that of the cache.
		{
			"cachewrite",
			"examples/effective/owners/fields.go",
			"decide(&pool.Value)",
			"decide(&pool.Value)\n\t\tpool.Labels[\"decided-by\"] = name",
		},
		// the new object gets the labels of the cached order, and then changes that map.
		{
			"cachewrite",
			"examples/effective/proof/right.go",
			"invoice := store.Object[Invoice]{Key: key, Value: Invoice{Item: order.Value.Item}}",
			"invoice := store.Object[Invoice]{Key: key, Labels: order.Labels, Value: Invoice{Item: order.Value.Item}}\n\t\tinvoice.Labels[\"order\"] = key",
		},
		// writes into the map of an object of a loop over the cache.
		{
			"cachewrite",
			"examples/effective/levels/right.go",
			"\t\t\t\t_, err := servers.Delete(ctx, name)",
			"\t\t\t\tserver.Labels[\"deleted-for\"] = key\n\t\t\t\t_, err := servers.Delete(ctx, name)",
		},
		// a handler writes into the map of its argument, which all handlers and the cache share.
		{
			"cachewrite",
			"examples/effective/levels/wrong.go",
			"OnAdd:    func(s store.Object[Site], _ bool) { scale(s.Key, 0, s.Value.Servers) },",
			"OnAdd:    func(s store.Object[Site], _ bool) { s.Labels[\"ordered\"] = \"true\"; scale(s.Key, 0, s.Value.Servers) },",
		},
		// meant to keep the local copy in step with the store; DeleteFunc shifts and clears the array of the cached object.
		{
			"cachewrite",
			"examples/effective/owners/wrong.go",
			"\t\t\treturn controller.Result{}, release(ctx, clusters, key)",
			"\t\t\tcluster.Finalizers = slices.DeleteFunc(cluster.Finalizers, func(f string) bool { return f == Cleanup })\n\t\t\treturn controller.Result{}, release(ctx, clusters, key)",
		},
		// adopts a child by changing the owners of the cached object, and never writes that to the store.
		{
			"cachewrite",
			"examples/webapp/orchestrator/webapps.go",
			"return Resource[Spec, Status]{}, nil",
			"old.Owners[0].UID = app.UID // adopt it",
		},
		// a helper gets a copy of a cached object, and writes into its map of labels.
		{
			"cachewrite",
			"examples/webapp/orchestrator/webapps.go",
			"\tswitch s.Phase {",
			"\tapp.Labels[\"phase\"] = string(s.Phase)\n\tswitch s.Phase {",
		},
		// a helper of mappers, handlers, and reconciles sorts the finalizers of a cached object in place. module: examples/tenants.
		{
			"cachewrite",
			"examples/tenants/tenant.go",
			"return slices.Contains(r.Finalizers, cleanup)",
			"slices.Sort(r.Finalizers)\n\t\treturn slices.Contains(r.Finalizers, cleanup)",
		},
		// a failed read of the store counts as success: the key is not retried.
		{
			"swallowed",
			"examples/effective/synced/right.go",
			"return controller.Result{}, err // it exists after all, or the read failed",
			"return controller.Result{}, nil // it exists after all",
		},
		// the error is logged, and the reconcile succeeds without a retry.
		{
			"swallowed",
			"examples/sites/main.go",
			"have, err := children.Apply(ctx, site.Ref(), want) // creates, updates, and deletes; leaves the status alone\n\t\tif err != nil {\n\t\t\treturn controller.Result{}, err",
			"have, err := children.Apply(ctx, site.Ref(), want) // creates, updates, and deletes; leaves the status alone\n\t\tif err != nil {\n\t\t\tlog.Printf(\"site %s: apply: %v\", key, err)\n\t\t\treturn controller.Result{}, nil",
		},
		// the write that says that the certificate is issued may fail unnoticed: it is ordered again.
		{
			"swallowed",
			"examples/effective/failure/right.go",
			"_, err = certs.UpdateStatus(ctx, cert)\n\t\treturn controller.Result{}, err",
			"_, err = certs.UpdateStatus(ctx, cert)\n\t\treturn controller.Result{}, nil",
		},
		// meant for ErrExists; drops every error of the creation.
		{
			"swallowed",
			"examples/effective/levels/right.go",
			"_, err := servers.Create(ctx, newServer(key, i))\n\t\t\t\terrs = append(errs, unless(err, store.ErrExists))",
			"_, _ = servers.Create(ctx, newServer(key, i)) // it may exist already",
		},
		// the error is logged, and the reconcile succeeds: a failed cleanup is not retried.
		{
			"swallowed",
			"examples/effective/deletion/right.go",
			"_, _, err := entry.Reconcile(ctx, sites, key)\n\t\treturn controller.Result{}, err",
			"if _, _, err := entry.Reconcile(ctx, sites, key); err != nil {\n\t\t\tcontroller.Logger(ctx).Warn(\"not reconciled\", \"error\", err)\n\t\t}\n\t\treturn controller.Result{}, nil",
		},
		// logs the failed creation, and returns success, with no resync that would try again.
		{
			"swallowed",
			"examples/effective/crash/right.go",
			"if id, err = cloud.Create(ctx, network.Value.CIDR, network.UID); err != nil {\n\t\t\t\treturn controller.Result{}, err",
			"if id, err = cloud.Create(ctx, network.Value.CIDR, network.UID); err != nil {\n\t\t\t\tcontroller.Logger(ctx).Error(\"create the network\", \"error\", err)\n\t\t\t\treturn controller.Result{}, nil",
		},
		// the disks are wiped, but that may not be recorded; the rack is Done all the same.
		{
			"swallowed",
			"examples/effective/blastradius/right.go",
			"if err := markWiped(ctx, machines, left); err != nil {\n\t\t\treturn controller.Result{}, err\n\t\t}",
			"_ = markWiped(ctx, machines, left)",
		},
		// reports the failed read as an event, and never retries.
		{
			"swallowed",
			"examples/webapp/orchestrator/manifests.go",
			"if err != nil && !errors.Is(err, store.ErrNotFound) {\n\t\treturn controller.Result{}, err",
			"if err != nil && !errors.Is(err, store.ErrNotFound) {\n\t\tc.events.Warning(store.Ref{Kind: kindWebApp, Key: name}, \"Unreadable\", err.Error())\n\t\treturn controller.Result{}, nil",
		},
		// a status that could not be written is not written again.
		{
			"swallowed",
			"examples/webapp/orchestrator/webapps.go",
			"c.recordPhase(app, status)\n\t}\n\treturn controller.Result{}, err",
			"c.recordPhase(app, status)\n\t}\n\treturn controller.Result{}, nil",
		},
		// logged instead of returned: the status stays wrong.
		{
			"swallowed",
			"examples/webapp/orchestrator/services.go",
			"return result, c.writeStatus(ctx, s, status)",
			"if err := c.writeStatus(ctx, s, status); err != nil {\n\t\tc.log.Warn(\"the status was not written\", \"service\", name, \"error\", err)\n\t}\n\treturn result, nil",
		},
		// a helper of the reconcile drops the error, so there is no backoff and nobody sees the failure.
		{
			"swallowed",
			"examples/webapp/orchestrator/deployments.go",
			"errs = append(errs, c.machine.Stop(ctx, r.ID))",
			"_ = c.machine.Stop(ctx, r.ID) // the next pass tries again",
		},
		// a helper reports the error as an event, and returns nil: the reconcile succeeds.
		{
			"swallowed",
			"examples/webapp/orchestrator/deployments.go",
			"errs = append(errs, err)\n\t\t\tcontinue",
			"c.events.Warning(store.Ref{Kind: kindDeployment, Key: app}, \"StopFailed\", err.Error())\n\t\t\tcontinue",
		},
		// waits up to 32 hours in the worker instead of giving the key back.
		{
			"blocking",
			"examples/effective/failure/right.go",
			"return controller.Result{}, retry.NotYet(errTooEarly, early)",
			"time.Sleep(early)",
		},
		// every reconcile occupies a worker for five seconds, and ignores a stop.
		{
			"blocking",
			"examples/sites/main.go",
			"ready := len(slices.DeleteFunc(have,",
			"time.Sleep(5 * time.Second) // let the servers boot\n\t\tready := len(slices.DeleteFunc(have,",
		},
		// a request without the context, from Apply and Cleanup of the reconcile, cannot be canceled.
		{
			"blocking",
			"examples/sites/world.go",
			"http.NewRequestWithContext(ctx, method, \"http://dns.example.com/\"+site.Key, nil)",
			"http.NewRequest(method, \"http://dns.example.com/\"+site.Key, nil)",
		},
		// the probe of the reconcile of another package ignores the timeout: a replica that hangs blocks a worker forever.
		{
			"blocking",
			"examples/webapp/machine/probe.go",
			"http.NewRequestWithContext(ctx, http.MethodGet, \"http://\"+r.Addr()+\"/healthz\", nil)",
			"http.NewRequest(http.MethodGet, \"http://\"+r.Addr()+\"/healthz\", nil)",
		},
		// a helper of the reconcile sleeps instead of asking for a later reconcile (and does not come back).
		{
			"blocking",
			"examples/webapp/orchestrator/deployments.go",
			"return controller.Result{RequeueAfter: grace}, nil",
			"time.Sleep(grace) // until they have ended",
		},
		// a helper that the reconcile passes as a method value sleeps for each replica.
		{
			"blocking",
			"examples/webapp/orchestrator/deployments.go",
			"c.machine.Drain(id)\n\treturn nil",
			"c.machine.Drain(id)\n\ttime.Sleep(drainLimit) // for its connections\n\treturn nil",
		},
		// a receive without the context paces the probes, and the timeout is over before the probe.
		{
			"blocking",
			"examples/webapp/orchestrator/probes.go",
			"err := c.machine.Probe(probe, r)",
			"<-time.After(c.interval)\n\terr := c.machine.Probe(probe, r)",
		},
		// waits in the worker until the servers are there, and does not even end with the context (also leadercontext).
		{
			"blocking",
			"examples/07-owner/main.go",
			"_, err = children.Apply(ctx, site.Ref(), want)",
			"_, err = children.Apply(ctx, site.Ref(), want)\n\t\terr = errors.Join(err, wait.For(context.Background(), func(ctx context.Context) (bool, error) { n, err := owned(ctx, servers); return n >= len(want), err }))",
		},
		// a handler reads the store: all handlers of the cache wait for it, and its errors lose events.
		{
			"blocking",
			"examples/webapp/orchestrator/deployments.go",
			"c.expected.DeletionObserved(r.App, r.ID)\n\t\t\tadd(r.App)",
			"c.expected.DeletionObserved(r.App, r.ID)\n\t\t\tif _, err := c.deployments.Get(context.Background(), r.App); err != nil {\n\t\t\t\treturn\n\t\t\t}\n\t\t\tadd(r.App)",
		},
		// a handler acts on the machine (files and signals), instead of the reconcile.
		{
			"blocking",
			"examples/webapp/orchestrator/deployments.go",
			"if r.State != old.State {",
			"if r.State == machine.Unhealthy {\n\t\t\t\t_ = c.machine.Kill(context.Background(), r.ID)\n\t\t\t}\n\t\t\tif r.State != old.State {",
		},
		// a handler sleeps, and delays all later events.
		{
			"blocking",
			"examples/04-informer/main.go",
			"OnUpdate: func(old, c Certificate) {",
			"OnUpdate: func(old, c Certificate) {\n\t\t\ttime.Sleep(10 * time.Millisecond) // not too many at once",
		},
		// a mapper reads the store for each event (and fails for a site without a server).
		{
			"blocking",
			"examples/effective/synced/right.go",
			"func(_ context.Context, site store.Object[Site]) ([]string, error) { return []string{site.Key}, nil }",
			"func(ctx context.Context, site store.Object[Site]) ([]string, error) { server, err := servers.Get(ctx, site.Key); return []string{server.Key}, err }",
		},
		// a mapper reads the store for each event of a server.
		{
			"blocking",
			"examples/effective/levels/right.go",
			"func(_ context.Context, s store.Object[Server]) ([]string, error) { return []string{s.Value.Site}, nil }",
			"func(ctx context.Context, s store.Object[Server]) ([]string, error) { site, err := sites.Get(ctx, s.Value.Site); return []string{site.Key}, err }",
		},
		// a mapper queries the table for each resource in each list of the cloud, through a function in a field. module: examples/tenants.
		{
			"blocking",
			"examples/tenants/main.go",
			"func(_ context.Context, r cloud.Resource) ([]string, error) { return []string{tenantOf(r.Key)}, nil }",
			"func(ctx context.Context, r cloud.Resource) ([]string, error) { row, _, err := w.row(ctx, tenantOf(r.Key)); return []string{row.Key()}, err }",
		},
		// somebody wants it faster: now four workers write to the map world without a lock.
		{
			"sharedstate",
			"examples/quickstart/main.go",
			"controller.Config[string]{}, controller.For(cached))",
			"controller.Config[string]{Workers: 4}, controller.For(cached))",
		},
		// four workers read and write the captured variable again without a lock.
		{
			"sharedstate",
			"examples/01-queue/main.go",
			"q.Run(ctx, 1, func",
			"q.Run(ctx, 4, func",
		},
		// eight workers fill one captured map: servers of one site are made for another.
		{
			"sharedstate",
			"examples/sites/main.go",
			"\treconcile := func(ctx context.Context, key string) (controller.Result, error) {\n\t\tsite, live, err := entry.Reconcile(ctx, sites, key) // the entry exists or, for a deleted site, is gone\n\t\tif err != nil || !live {\n\t\t\treturn controller.Result{}, err // retried after a backoff, at the time in the error, or never: retry.Permanent\n\t\t}\n\t\twant := map[string]Server{}",
			"\twant := map[string]Server{} // reused, to save allocations\n\treconcile := func(ctx context.Context, key string) (controller.Result, error) {\n\t\tsite, live, err := entry.Reconcile(ctx, sites, key) // the entry exists or, for a deleted site, is gone\n\t\tif err != nil || !live {\n\t\t\treturn controller.Result{}, err // retried after a backoff, at the time in the error, or never: retry.Permanent\n\t\t}\n\t\tclear(want)",
		},
		// two workers write to a map of the package without a lock.
		{
			"sharedstate",
			"examples/06-controller/main.go",
			"// Reconcile returns when it wants to be called again for the key, or the error that stopped it.\nfunc (r *reconciler) Reconcile(ctx context.Context, name string) (controller.Result, error) {\n",
			"var passes = map[string]int{} // by site, for debugging\n\n// Reconcile returns when it wants to be called again for the key, or the error that stopped it.\nfunc (r *reconciler) Reconcile(ctx context.Context, name string) (controller.Result, error) {\n\tpasses[name]++\n",
		},
		// = instead of := writes to the err of the constructor, which four workers share: one returns the error of another.
		{
			"sharedstate",
			"examples/effective/crash/right.go",
			"\t\t_, err := networks.UpdateStatus(ctx, network)\n\t\treturn controller.Result{}, err\n\t}, controller.Config[string]{}, controller.For(cached)",
			"\t\t_, err = networks.UpdateStatus(ctx, network)\n\t\treturn controller.Result{}, err\n\t}, controller.Config[string]{Workers: 4}, controller.For(cached)",
		},
		// a counter in the receiver, written by two workers without a lock.
		{
			"sharedstate",
			"examples/webapp/orchestrator/deployments.go",
			"\tended sync.Map\n}\n\n// Reconcile takes the next step of one deployment and writes its status.\nfunc (c *deployments) Reconcile(ctx context.Context, app string) (controller.Result, error) {\n",
			"\tended sync.Map\n\n\tpasses int // so far\n}\n\n// Reconcile takes the next step of one deployment and writes its status.\nfunc (c *deployments) Reconcile(ctx context.Context, app string) (controller.Result, error) {\n\tc.passes++\n",
		},
		// eight workers read and write a field of the receiver without a lock, and the timeout of one replica is that of all.
		{
			"sharedstate",
			"examples/webapp/orchestrator/probes.go",
			"c.machine.ReportHealth(id, err)",
			"c.machine.ReportHealth(id, err)\n\tif errors.Is(err, machine.ErrUnhealthy) {\n\t\tc.timeout *= 2 // it may just be slow\n\t}",
		},
		// reading the row in the reconcile now writes it, without the term of the leader. module: examples/tenants.
		{
			"unguarded",
			"examples/tenants/database.go",
			"const query = \"SELECT customer, name, plan, region FROM tenants WHERE customer = $1 AND name = $2\"",
			"const query = \"UPDATE tenants SET plan = lower(plan) WHERE customer = $1 AND name = $2 RETURNING customer, name, plan, region\"",
		},
		// fills in a default on the way, by a write of a reconcile that no fence guards. module: examples/tenants.
		{
			"unguarded",
			"examples/tenants/database.go",
			"\terr = db.sql.QueryRowContext(ctx, query, customer, name)",
			"\t_, _ = db.sql.ExecContext(ctx, \"UPDATE tenants SET region = 'eu' WHERE customer = $1 AND name = $2 AND region = ''\", customer, name)\n\terr = db.sql.QueryRowContext(ctx, query, customer, name)",
		},
		// the function that the reconcile reads rows with also notes what was seen, unguarded. module: examples/tenants.
		{
			"unguarded",
			"examples/tenants/main.go",
			"row: db.row,",
			"row: func(ctx context.Context, key string) (Row, bool, error) {\n\t\t_, _ = db.sql.ExecContext(ctx, \"INSERT INTO seen (tenant) VALUES ($1) ON CONFLICT DO NOTHING\", key)\n\t\treturn db.row(ctx, key)\n\t},",
		},
		// an audit row per reconcile, written by database/sql outside of Transact. module: examples/tenants.
		{
			"unguarded",
			"examples/tenants/main.go",
			"ofResources, err2 = controller.New(\"resources\", r.reconcile,",
			"ofResources, err2 = controller.New(\"resources\", func(ctx context.Context, key string) (controller.Result, error) {\n\t\tresult, err := r.reconcile(ctx, key)\n\t\t_, failed := w.db.(*database).sql.ExecContext(ctx, \"INSERT INTO audit (resource) VALUES ($1)\", key)\n\t\treturn result, errors.Join(err, failed)\n\t},",
		},
		// the delay beside the error is ignored: backoff instead of the budget.
		{
			"resultanderror",
			"examples/effective/failure/right.go",
			"return controller.Result{}, retry.NotYet(errTooEarly, early)",
			"return controller.Result{RequeueAfter: early}, errTooEarly",
		},
		// the delay beside the error is ignored.
		{
			"resultanderror",
			"examples/effective/failure/right.go",
			"return controller.Result{}, errors.Join(retry.NotYet(err, time.Until(status.NotBefore)), failed)",
			"return controller.Result{RequeueAfter: time.Until(status.NotBefore)}, errors.Join(err, failed)",
		},
		// meant to slow the retries down; the delay is ignored.
		{
			"resultanderror",
			"examples/sites/main.go",
			"have, err := children.Apply(ctx, site.Ref(), want) // creates, updates, and deletes; leaves the status alone\n\t\tif err != nil {\n\t\t\treturn controller.Result{}, err",
			"have, err := children.Apply(ctx, site.Ref(), want) // creates, updates, and deletes; leaves the status alone\n\t\tif err != nil {\n\t\t\treturn controller.Result{RequeueAfter: 30 * time.Second}, err",
		},
		// thirty nanoseconds, meant as seconds: each success requeues at once, forever.
		{
			"resultanderror",
			"examples/06-controller/main.go",
			"return controller.Result{RequeueAfter: time.Hour}, nil",
			"return controller.Result{RequeueAfter: time.Duration(30)}, nil",
		},
		// one nanosecond, meant as "look again": each success requeues at once, forever.
		{
			"resultanderror",
			"examples/quickstart/main.go",
			"return controller.Result{}, nil",
			"return controller.Result{RequeueAfter: 1}, nil",
		},
		// one return for both cases: the delay is ignored if the write failed.
		{
			"resultanderror",
			"examples/effective/proof/right.go",
			"_, err := orders.UpdateStatus(ctx, order)\n\t\treturn controller.Result{}, err",
			"_, err := orders.UpdateStatus(ctx, order)\n\t\treturn controller.Result{RequeueAfter: time.Minute}, err",
		},
		// a helper returns a delay beside the error.
		{
			"resultanderror",
			"examples/webapp/orchestrator/deployments.go",
			"\"Stopping\", \"its deployment is gone\"); err != nil {\n\t\treturn controller.Result{}, err",
			"\"Stopping\", \"its deployment is gone\"); err != nil {\n\t\treturn controller.Result{RequeueAfter: grace}, err",
		},
		// meant to keep the rhythm of the probes; the delay is ignored.
		{
			"resultanderror",
			"examples/webapp/orchestrator/probes.go",
			"return controller.Result{}, err // the probe could not be made",
			"return controller.Result{RequeueAfter: c.interval}, err // the probe could not be made",
		},
		// a helper returns a delay beside an error, and the reconcile passes both on. module: examples/tenants.
		{
			"resultanderror",
			"examples/tenants/reconcile.go",
			"settled, err := t.compare(ctx, have)\n\tif err != nil {\n\t\treturn controller.Result{}, err",
			"settled, err := t.compare(ctx, have)\n\tif err != nil {\n\t\treturn controller.Result{RequeueAfter: t.lookEach}, err",
		},
		// the key of a controller has an interface: two keys may differ by type, and a dynamic type may not be comparable.
		{
			"keytype",
			"examples/effective/levels/wrong.go",
			"\tDo, Site string\n",
			"\tDo   any // \"create\" or \"delete\"\n\tSite string\n",
		},
		// the keys of expectations are interfaces.
		{
			"keytype",
			"examples/05-expectations/main.go",
			"expectations.NewCounted(expectations.Config[string]{})",
			"expectations.NewCounted(expectations.Config[any]{})",
		},
		// the keys of expectations are interfaces.
		{
			"keytype",
			"examples/05-expectations/main.go",
			"expectations.NewTracked[string, int](expectations.Config[string]{})",
			"expectations.NewTracked[any, int](expectations.Config[any]{})",
		},
		// the keys of expectations are interfaces.
		{
			"keytype",
			"examples/05-expectations/main.go",
			"expectations.NewVersions[string](expectations.Config[string]{})",
			"expectations.NewVersions[any](expectations.Config[any]{})",
		},
		// expects all replicas after they were started: events that were faster are expected forever.
		{
			"expectation",
			"examples/webapp/orchestrator/deployments.go",
			"\tc.expected.ExpectCreations(d.Key, ids...)\n\tfor i, id := range ids {\n\t\terr := c.machine.Start(ctx, machine.Spec{ID: id, App: d.Key, Revision: spec.Revision(), Message: spec.Message})\n\t\tif err != nil {\n\t\t\tfor _, id := range ids[i:] {\n\t\t\t\tc.expected.CreationObserved(d.Key, id) // there will be no event\n\t\t\t}\n\t\t\tc.events.Warning(d.Ref(), \"StartFailed\", err.Error())\n\t\t\treturn err\n\t\t}\n\t\tc.events.Normal(d.Ref(), \"Started\", \"replica \"+id)\n\t}\n",
			"\tfor i, id := range ids {\n\t\terr := c.machine.Start(ctx, machine.Spec{ID: id, App: d.Key, Revision: spec.Revision(), Message: spec.Message})\n\t\tif err != nil {\n\t\t\tfor _, id := range ids[i:] {\n\t\t\t\tc.expected.CreationObserved(d.Key, id) // there will be no event\n\t\t\t}\n\t\t\tc.events.Warning(d.Ref(), \"StartFailed\", err.Error())\n\t\t\treturn err\n\t\t}\n\t\tc.events.Normal(d.Ref(), \"Started\", \"replica \"+id)\n\t}\n\tc.expected.ExpectCreations(d.Key, ids...)\n",
		},
		// expects each replica after its start, when its event may have been seen already.
		{
			"expectation",
			"examples/webapp/orchestrator/deployments.go",
			"\tc.expected.ExpectCreations(d.Key, ids...)\n\tfor i, id := range ids {\n\t\terr := c.machine.Start(ctx, machine.Spec{ID: id, App: d.Key, Revision: spec.Revision(), Message: spec.Message})\n",
			"\tfor i, id := range ids {\n\t\terr := c.machine.Start(ctx, machine.Spec{ID: id, App: d.Key, Revision: spec.Revision(), Message: spec.Message})\n\t\tc.expected.ExpectCreations(d.Key, id)\n",
		},
		// a failed start does not lower the expectations: the deployment waits until they expire.
		{
			"expectation",
			"examples/webapp/orchestrator/deployments.go",
			"c.expected.CreationObserved(d.Key, id) // there will be no event",
			"c.events.Warning(d.Ref(), \"NotStarted\", \"replica \"+id)",
		},
		// off by one: the expectation of the replica that has failed is not lowered.
		{
			"expectation",
			"examples/webapp/orchestrator/deployments.go",
			"for _, id := range ids[i:] {",
			"for _, id := range ids[i+1:] {",
		},
		// expects the end of a replica after it was ended: its event may have been seen already.
		{
			"expectation",
			"examples/webapp/orchestrator/deployments.go",
			"\tc.expected.ExpectDeletions(app, ids...)\n\tvar errs []error\n\tfor _, id := range ids {\n\t\t_, again := c.ended.LoadOrStore(id, time.Now())\n\t\tif err := end(ctx, id); err != nil {\n\t\t\tif !again {\n\t\t\t\tc.ended.Delete(id)\n\t\t\t}\n\t\t\tc.expected.DeletionObserved(app, id) // there will be no event\n\t\t\terrs = append(errs, err)\n\t\t\tcontinue\n\t\t}\n",
			"\tvar errs []error\n\tfor _, id := range ids {\n\t\t_, again := c.ended.LoadOrStore(id, time.Now())\n\t\tif err := end(ctx, id); err != nil {\n\t\t\tif !again {\n\t\t\t\tc.ended.Delete(id)\n\t\t\t}\n\t\t\terrs = append(errs, err)\n\t\t\tcontinue\n\t\t}\n\t\tc.expected.ExpectDeletions(app, id)\n",
		},
		// after a second failure for the same replica, the expectation is not lowered.
		{
			"expectation",
			"examples/webapp/orchestrator/deployments.go",
			"\t\t\tif !again {\n\t\t\t\tc.ended.Delete(id)\n\t\t\t}\n\t\t\tc.expected.DeletionObserved(app, id) // there will be no event\n",
			"\t\t\tif !again {\n\t\t\t\tc.ended.Delete(id)\n\t\t\t\tc.expected.DeletionObserved(app, id) // there will be no event\n\t\t\t}\n",
		},
		// copied from start: lowers a creation that nobody expects, and not the deletion.
		{
			"expectation",
			"examples/webapp/orchestrator/deployments.go",
			"\t\t\tc.expected.DeletionObserved(app, id) // there will be no event\n",
			"\t\t\tc.expected.CreationObserved(app, id) // there will be no event\n",
		},
		// counts after the write; the event may have come already.
		{
			"expectation",
			"examples/05-expectations/main.go",
			"\t\tbefore:    func(int) { counted.ExpectCreations(site, 1) }, // first expect, then act: the event may be faster than the call\n\t\tafter:     func(uint64) {},",
			"\t\tbefore:    nothing,\n\t\tafter:     func(uint64) { counted.ExpectCreations(site, 1) },",
		},
		// an order that is younger now is not looked at again when it is 30 days old.
		{
			"nowdecides",
			"examples/effective/proof/right.go",
			"\t\tinvoice := store.Object[Invoice]{",
			"\t\tif time.Since(order.Created) > 30*24*time.Hour { // nobody will pay for it\n\t\t\t_, err := orders.Delete(ctx, key)\n\t\t\treturn controller.Result{}, err\n\t\t}\n\t\tinvoice := store.Object[Invoice]{",
		},
		// expires only if something else reconciles the key at the right time.
		{
			"nowdecides",
			"examples/effective/failure/right.go",
			"\t\tstatus := cert.Value.Status\n",
			"\t\tif time.Now().After(cert.Created.Add(90 * 24 * time.Hour)) {\n\t\t\t_, err := certs.Delete(ctx, key)\n\t\t\treturn controller.Result{}, err\n\t\t}\n\t\tstatus := cert.Value.Status\n",
		},
		// given up and deleted by the clock and a time of the cached status; the requeues in between are for another time.
		{
			"nowdecides",
			"examples/effective/failure/right.go",
			"\t\tif early := time.Until(status.NotBefore); early > 0 {\n\t\t\treturn controller.Result{}, retry.NotYet(errTooEarly, early)\n\t\t}\n",
			"\t\tif last := cert.Value.Status.NotBefore; !last.IsZero() && last.AddDate(0, 1, 0).Before(time.Now()) {\n\t\t\t_, err := certs.Delete(ctx, key)\n\t\t\treturn controller.Result{}, err\n\t\t}\n\t\tif early := time.Until(status.NotBefore); early > 0 {\n\t\t\treturn controller.Result{}, retry.NotYet(errTooEarly, early)\n\t\t}\n",
		},
		// an idle service is deleted only if an event happens to come after its first hour.
		{
			"nowdecides",
			"examples/webapp/orchestrator/services.go",
			"\tstatus, err := c.tell(name, s.Value.Spec)\n",
			"\tif s.Value.Status.Backends == 0 && time.Since(s.Created) > time.Hour {\n\t\t_, err := c.services.Delete(ctx, name)\n\t\treturn controller.Result{}, err\n\t}\n\tstatus, err := c.tell(name, s.Value.Spec)\n",
		},
		// a replica that never starts is killed only if it is reconciled after its patience, and nothing requeues it.
		{
			"nowdecides",
			"examples/webapp/orchestrator/probes.go",
			"\tif !ok || r.State == machine.Starting ||",
			"\tif ok && r.State == machine.Starting && time.Since(r.Created) > patience {\n\t\treturn controller.Result{}, c.machine.Kill(ctx, id)\n\t}\n\tif !ok || r.State == machine.Starting ||",
		},
		// which servers Apply deletes depends on the clock and on a cached time, and no reconcile comes at that time.
		{
			"nowdecides",
			"examples/sites/main.go",
			"\t\t\twant[fmt.Sprintf(\"%s-%d\", key, i)] = Server{Image: site.Value.Image}\n",
			"\t\t\tif old, ok := seenServers.Get(fmt.Sprintf(\"%s-%d\", key, i)); ok && time.Since(old.Created) > 24*time.Hour {\n\t\t\t\tcontinue // it is deleted now, and the next pass makes a fresh one\n\t\t\t}\n\t\t\twant[fmt.Sprintf(\"%s-%d\", key, i)] = Server{Image: site.Value.Image}\n",
		},
	}
}
